"""The table of docs/differences.md: each rule of preemption, and what each rule set says of it."""

import re
from collections.abc import Iterator

from tools.docs.sources import fields

from podium.planner.semantics import RuleSet, Semantics, UnitRule

_TEXT = re.compile(
    r"(?:\[(?P<needs>\w+)\] )?(?P<subject>[^|]+): (?P<set>[^|]+) \| (?P<unset>[^|]+) \((?P<source>[^()]+)\)\."
)


def table() -> str:
    """Return the table in Markdown.

    Raises ValueError for a rule without its text, or with one of another form.
    """
    heads = "".join(f" `{semantics}` |" for semantics in Semantics)
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows())
    return f"| Rule |{heads} Source |\n|---|{'---|' * len(Semantics)}---|\n{rows}"


def _rows() -> Iterator[tuple[str, ...]]:
    sets = [semantics.rules for semantics in Semantics]
    for rule, text in _texts(UnitRule):
        cells = [
            _by_preemptor(_cell(text, rules.pod_victims, rule), _cell(text, rules.group_victims, rule))
            for rules in sets
        ]
        yield text["subject"], *cells, text["source"]
    charges = [_by_preemptor(rules.pod_charge.value, rules.group_charge.value) for rules in sets]
    yield "A pod that overdrew a budget", *charges, "FilterVictimsWithPDBViolation"
    for rule, text in _texts(RuleSet):
        yield text["subject"], *(_cell(text, rules, rule) for rules in sets), text["source"]


def _texts(of: type[RuleSet | UnitRule]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the rules of a class, which are its fields that are true or false, with their texts."""
    for rule, text in fields(of).items():
        if of.__annotations__[rule] in (bool, bool | None):
            match = _TEXT.fullmatch(" ".join(text.split()))
            if match is None:
                raise ValueError(f"{of.__name__}.{rule}: not of the form SUBJECT: IF SET | IF NOT (SOURCE).")
            yield rule, match


def _cell(text: re.Match[str], rules: RuleSet | UnitRule, rule: str) -> str:
    """Return what a set says of a rule."""
    needs, value = text["needs"], getattr(rules, rule)
    if needs is not None and not getattr(rules, needs):
        return "-"
    if value is None:
        return "as the cluster's release"
    return text["set"] if value else text["unset"]


def _by_preemptor(pod: str, group: str) -> str:
    return pod if pod == group else f"for a pod: {pod}; for a group: {group}"
