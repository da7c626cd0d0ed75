"""A line of `podium doctor`: a fact, its severity, and what to do about it.

A finding (`podium.api.findings`) is a problem of a user's object by a rule. A check also reports what is
correct and what could not be checked, because the reader needs to know that it was checked.
"""

import functools
from enum import StrEnum

import msgspec


class CheckLevel(StrEnum):
    """The severity: a note is worth knowing, a warning may cause harm later, a problem does harm now."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


class DoctorCheck(msgspec.Struct, frozen=True):
    """A check and its outcome, each text in one line; `fix` is empty if there is nothing to do.

    `made` is false if the check could not be made.
    """

    level: CheckLevel
    name: str
    fact: str
    fix: str = ""
    made: bool = True


# The fix if an object of the installation is missing or older.
APPLY = "apply Podium's manifests, or upgrade its Helm release (docs/install.md)"

# A check of each level, by its name, its fact and its fix.
problem = functools.partial(DoctorCheck, CheckLevel.PROBLEM)
warning = functools.partial(DoctorCheck, CheckLevel.WARNING)
note = functools.partial(DoctorCheck, CheckLevel.NOTE)
ok = functools.partial(DoctorCheck, CheckLevel.OK)
