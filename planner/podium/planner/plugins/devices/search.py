"""The search for the first solution: depth first over claims, requests, alternatives and devices.

The devices of a request are tried in the order of the node, each after the one before it, so no set of
devices is tried twice. A new request starts at the first device. Of several alternatives, the first with a
solution is taken. If a request cannot be met within the limit of a claim's results, no other devices for the
requests before it can change that, so the search goes back to an earlier choice between alternatives at once.

The number of sets is exponential. Devices that are twins are tried once (see `twins`): if no solution has one
of them, no solution of that request has another in its place. So the search for some of many equal devices
ends as quickly as a count of them, with the same result. Every step enforces the deadline.

The search has its own stack, as a pod can have more than a thousand devices.

Source: allocateOne of the incubating allocator, 1.36 and 1.37.
"""

import math
from enum import Enum, auto
from typing import Any, NamedTuple

from podium.api.devices import MAX_RESULTS
from podium.planner.deadline import Deadline
from podium.planner.plugins.devices.chosendevices import DeviceTrial
from podium.planner.plugins.devices.gates import AllocationError, UnansweredAllocationError
from podium.planner.plugins.devices.requests import DeviceNeed

TOO_LONG = "timed out trying to allocate devices"
# The most characters of a selector in an error.
_SHOWN = 160


class SearchLimits(Deadline):
    """The steps and the effort of selectors that a search may take.

    Both are counted, unlike a time, so that equal searches end equally.
    """

    __slots__ = ("_too_long", "effort", "steps")

    def __init__(self, steps: int, effort: int) -> None:
        super().__init__(lambda: 0.0, math.inf)
        # The steps and the effort that are left.
        self.steps = steps
        self.effort = effort
        self._too_long = TOO_LONG

    def enforce(self) -> None:
        """Count a step. Raises AllocationError if there were too many."""
        self.steps -= 1
        if self.steps < 0:
            raise AllocationError(TOO_LONG)

    def spend(self, effort: int, expression: str = "") -> None:
        """Count the effort of a selector. Raises AllocationError if nothing was left for it."""
        if self.effort <= 0:
            raise AllocationError(self._too_long)
        self.effort -= effort
        if self.effort <= 0:
            self._too_long = f"{TOO_LONG} (selector {' '.join(expression.split())[:_SHOWN]} takes too long)"


# Devices that a search cannot tell apart, so that one of them answers for all.
#
# If the search found no solution with a device, it finds none with its twin either: a solution with the twin
# would be one with the device, because the two can change places. Attributes that no selector or constraint
# reads, such as a serial number, do not count. Devices in use, and devices that several allocations share,
# have no twins.


def twins_of(trial: DeviceTrial) -> list[int]:
    """Return the number of its class for each device of the node; twins have one number."""
    if not trial.demand.symmetric:
        # A request with administrative access may have a device that others cannot.
        return list(range(len(trial.node.devices)))
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(_marks(trial, at), len(numbers)) for at in range(len(trial.node.devices))]


def _marks(trial: DeviceTrial, at: int) -> Any:
    """Return what the search reads of a device."""
    node = trial.node
    if node.multiple(at) or trial.used >> at & 1:
        return at
    device = node.devices[at]
    attributes = {
        constraint.matchAttribute or constraint.distinctAttribute or ""
        for claim in trial.demand.claims
        for constraint in claim.constraints
    }
    return (
        node.owners[at].id,
        tuple(_answer(trial, requirement, at) for requirement in trial.demand.requirements),
        tuple(device.attribute(name) for name in sorted(attributes)),
        tuple(sorted(device.consumption().items())),
    )


def _answer(trial: DeviceTrial, requirement: DeviceNeed, at: int) -> bool | str:
    try:
        return trial.suitable(requirement, at) and trial.node.tolerated(requirement, at)
    except UnansweredAllocationError:
        raise
    except AllocationError as error:
        # The device fails wherever its twins fail; the text names the first of them.
        return str(error).replace(str(trial.node.devices[at]), "")


# The devices of each request for all devices, by the number of the requirement.
AllDevices = dict[int, list[int]]


class _Failure(Enum):
    NONE_LEFT = auto()
    TOO_MANY = auto()


class _SearchPoint(NamedTuple):
    """A point of the search: a requirement has `done` devices, and the next one is at `start` or later.

    Without a requirement, the request has not begun. `barred` has a bit for each class of twins that have no
    solution.
    """

    claim: int
    request: int = 0
    requirement: DeviceNeed | None = None
    done: int = 0
    start: int = 0
    barred: int = 0


class _ClaimEnd(NamedTuple):
    """The end of a claim: its limit of results does not concern the claims before it."""


class _Alternatives:
    """A request with alternatives, of which `index` is tried."""

    __slots__ = ("index", "place", "too_many")

    def __init__(self, place: _SearchPoint) -> None:
        self.place = place
        self.index = 0
        self.too_many = True


class _Pick:
    """A device of a requirement; `at` is the one that is tried."""

    __slots__ = ("at", "barred", "place", "requirement")

    def __init__(self, place: _SearchPoint, requirement: DeviceNeed) -> None:
        self.place = place
        self.requirement = requirement
        self.at = place.start - 1
        self.barred = place.barred


_Next = _SearchPoint | _Failure


class DeviceSearch:
    """One search on one node; `trial` has the solution afterwards, and `taken` the alternatives."""

    def __init__(self, trial: DeviceTrial, every: AllDevices, deadline: Deadline) -> None:
        self.trial = trial
        self._every = every
        self._deadline = deadline
        self._stack: list[_ClaimEnd | _Alternatives | _Pick] = []
        self._twins: list[int] = []

    def solve(self) -> bool:
        """Return whether there is a solution. Raises AllocationError, DecisionTimeoutError."""
        claims = len(self.trial.demand.claims)
        reached: _Next = _SearchPoint(0)
        while not isinstance(reached, _SearchPoint) or reached.claim < claims:
            if isinstance(reached, _SearchPoint):
                self._deadline.enforce()
                reached = self._advance(reached)
            elif self._stack:
                reached = self._return_to(self._stack[-1], reached)
            else:
                return False
        return True

    @property
    def taken(self) -> dict[tuple[int, int], int]:
        """The index of the alternative of a solution, by claim and request."""
        return {
            (frame.place.claim, frame.place.request): frame.index
            for frame in self._stack
            if isinstance(frame, _Alternatives)
        }

    def _advance(self, place: _SearchPoint) -> _Next:
        """Return the next place, after the choice of a device if one is due."""
        requests = self.trial.demand.claims[place.claim].requests
        if place.request >= len(requests):
            self._stack.append(_ClaimEnd())
            return _SearchPoint(place.claim + 1)
        requirement = place.requirement
        if requirement is None:
            request = requests[place.request]
            if request.listed:
                self._stack.append(_Alternatives(place))
            return place._replace(requirement=request.alternatives[0])
        size = self._size(requirement)
        if requirement.every and not size:
            return _Failure.NONE_LEFT
        if place.done >= size:
            return _SearchPoint(place.claim, place.request + 1)
        if len(self.trial.chosen[place.claim]) + size - place.done > MAX_RESULTS:
            return _Failure.TOO_MANY
        pick = _Pick(place, requirement)
        self._stack.append(pick)
        return self._choose(pick)

    def _return_to(self, frame: _ClaimEnd | _Alternatives | _Pick, failure: _Failure) -> _Next:
        """Return the next place after a failure beyond a frame, or the failure of the frame."""
        if isinstance(frame, _Pick):
            self.trial.undo(frame.requirement.claim)
            if failure is _Failure.NONE_LEFT and not frame.requirement.every:
                frame.barred |= 1 << self._class(frame.at)
                return self._choose(frame)
        elif isinstance(frame, _Alternatives):
            frame.too_many &= failure is _Failure.TOO_MANY
            frame.index += 1
            request = self.trial.demand.claims[frame.place.claim].requests[frame.place.request]
            if frame.index < len(request.alternatives):
                return frame.place._replace(requirement=request.alternatives[frame.index])
            failure = _Failure.TOO_MANY if frame.too_many else _Failure.NONE_LEFT
        else:
            failure = _Failure.NONE_LEFT
        self._stack.pop()
        return failure

    def _choose(self, pick: _Pick) -> _Next:
        """Place the next device for a pick; without one, drop the pick."""
        place, requirement, trial = pick.place, pick.requirement, self.trial
        if requirement.every:
            if trial.take_device(requirement, self._every[requirement.number][place.done], must=True):
                return place._replace(done=place.done + 1)
        else:
            for at in range(pick.at + 1, len(trial.node.devices)):
                if pick.barred and pick.barred >> self._class(at) & 1:
                    continue
                if not trial.available(requirement, at) or not trial.suitable(requirement, at):
                    continue
                if trial.take_device(requirement, at):
                    pick.at = at
                    return place._replace(done=place.done + 1, start=at + 1, barred=pick.barred)
        self._stack.pop()
        return _Failure.NONE_LEFT

    def _size(self, requirement: DeviceNeed) -> int:
        return len(self._every[requirement.number]) if requirement.every else requirement.count

    def _class(self, at: int) -> int:
        """Return the class of twins of a device, which is computed when the search first goes back."""
        if not self._twins:
            self._twins = twins_of(self.trial)
        return self._twins[at]
