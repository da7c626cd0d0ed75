"""The reference of `podium.answers`, from signatures and docstrings: functions and their values."""

import ast
import inspect
from collections.abc import Callable, Iterator

from podium import answers
from podium.answers.accounts.answer import WhyAnswer
from podium.answers.accounts.model import Account, Wait
from podium.answers.admission import Admitted
from podium.answers.audits.report import AuditReport, AuditSummary, Blocked
from podium.answers.whatifplans import Addition
from podium.answers.whatifreport import WhatIf
from podium.api.findings import Finding
from podium.planner.preemption.outcome import Plan, PlanHarm, UnitVerdict
from podium.rules.admission import Verdict

FUNCTIONS = (answers.read, answers.read_objects, answers.audit, answers.whatif, answers.why, answers.admit)
VALUES: tuple[type, ...] = (
    answers.ClusterReading,
    AuditReport,
    AuditSummary,
    Blocked,
    Finding,
    Addition,
    WhatIf,
    Plan,
    PlanHarm,
    UnitVerdict,
    WhyAnswer,
    Account,
    Wait,
    Admitted,
    Verdict,
)


def reference() -> str:
    """Return the section of the functions, and that of the values."""
    lines = ["## Functions"]
    for function in FUNCTIONS:
        lines += ["", f"### {function.__name__}", "", "```python", *_signature(function), "```", ""]
        lines.append(inspect.getdoc(function) or "")
    lines += ["", "## Values"]
    for value in VALUES:
        lines += [
            "",
            f"### {value.__name__}",
            "",
            inspect.getdoc(value) or "",
            "",
            "| Field | Type |",
            "|---|---|",
        ]
        lines += [f"| `{name}` | `{kind}` |" for name, kind in _fields(value)]
    return "\n".join(lines) + "\n"


def _signature(function: Callable[..., object]) -> Iterator[str]:
    """Yield the lines of a signature, a parameter each."""
    (made,) = ast.parse(inspect.getsource(function)).body
    assert isinstance(made, ast.FunctionDef)
    assert made.returns is not None
    yield f"def {made.name}("
    first = len(made.args.args) - len(made.args.defaults)
    for index, argument in enumerate(made.args.args):
        yield _parameter(argument, made.args.defaults[index - first] if index >= first else None)
    if made.args.vararg:
        yield f"    *{ast.unparse(made.args.vararg)},"
    elif made.args.kwonlyargs:
        yield "    *,"
    for argument, default in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True):
        yield _parameter(argument, default)
    yield f") -> {ast.unparse(made.returns)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    value = f" = {ast.unparse(default)}" if default is not None else ""
    return f"    {ast.unparse(argument)}{value},"


def _fields(value: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class with their types, as its source has them."""
    (made,) = ast.parse(inspect.getsource(value)).body
    assert isinstance(made, ast.ClassDef)
    for statement in made.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, ast.unparse(statement.annotation).replace("|", "\\|")
