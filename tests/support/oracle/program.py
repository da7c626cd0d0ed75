"""An integer program, built column by column and solved by HiGHS: minimize one sum after another."""

import math
from collections.abc import Iterable, Mapping

import highspy
import numpy as np

from podium.errors import PodiumError

# All costs are integers, so of two solutions closer than this one is optimal.
_GAP = 0.99
_INFINITE = highspy.kHighsInf


class Program:
    """Variables of at least 0, rows `sum(coefficient * variable) <= most`, and costs to minimize in turn.

    Coefficients and bounds are integers. A row is divided by the common divisor of its coefficients, so that
    bytes stay within the tolerance of floating-point numbers.
    """

    def __init__(self) -> None:
        self._most: list[float] = []
        self._integer: list[bool] = []
        self._rows: list[tuple[Mapping[int, int], int]] = []
        self._solver: highspy.Highs | None = None
        self.values: list[int] = []

    def variable(self, most: int | None = None, *, integer: bool = True) -> int:
        """Add a variable of at least 0 and return its number; `integer` is False if other rows make it so."""
        self._most.append(_INFINITE if most is None else most)
        self._integer.append(integer)
        return len(self._most) - 1

    def row(self, coefficients: Mapping[int, int], most: int) -> None:
        """Add a row: a sum is at most `most`."""
        given = {variable: each for variable, each in coefficients.items() if each}
        common = math.gcd(*given.values()) or 1
        scaled = {variable: each // common for variable, each in given.items()}
        self._rows.append((scaled, most // common))
        if self._solver is not None:
            self._add(*self._rows[-1])

    def minimize(self, costs: Mapping[int, int]) -> int | None:
        """Return the least sum of costs; `values` are then the variables. None if no values meet all rows."""
        solver = self._solver or self._built()
        every = np.arange(len(self._most), dtype=np.int32)
        weights = np.zeros(len(every))
        weights[list(costs)] = list(costs.values())
        solver.changeColsCost(len(every), every, weights)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise PodiumError(f"HiGHS did not solve the program: {status}")
        self.values = [round(each) for each in solver.getSolution().col_value]
        for coefficients, most in self._rows:
            assert sum(each * self.values[at] for at, each in coefficients.items()) <= most, "an inexact row"
        return sum(cost * self.values[at] for at, cost in costs.items())

    def forbid(self, variables: Iterable[int]) -> None:
        """Set variables to 0 from now on."""
        assert self._solver is not None, "the program was solved before"
        for variable in variables:
            self._solver.changeColBounds(variable, 0, 0)

    def _built(self) -> highspy.Highs:
        solver = self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", _GAP)
        upper = np.array(self._most, np.float64)
        solver.addVars(len(upper), np.zeros(len(upper)), upper)
        integers = np.flatnonzero(np.array(self._integer, np.bool_)).astype(np.int32)
        kinds = np.full(len(integers), int(highspy.HighsVarType.kInteger), np.uint8)
        solver.changeColsIntegrality(len(integers), integers, kinds)
        for coefficients, most in self._rows:
            self._add(coefficients, most)
        return solver

    def _add(self, coefficients: Mapping[int, int], most: int) -> None:
        assert self._solver is not None
        at = np.fromiter(coefficients, np.int32, len(coefficients))
        weights = np.fromiter(coefficients.values(), np.float64, len(coefficients))
        self._solver.addRow(-_INFINITE, most, len(at), at, weights)
