"""A line of `podium doctor`: a fact, its severity, and what to do about it.

A finding (`podium.findings`) is a problem of a user's object by a rule. A check also reports what is correct
and what could not be checked, because the reader needs to know that it was checked.
"""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """The severity: a note is worth knowing, a warning may cause harm later, a problem does harm now."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


class Check(msgspec.Struct, frozen=True):
    """A check and its outcome, each text in one line; `fix` is empty if there is nothing to do.

    `made` is false if the check could not be made.
    """

    name: str
    level: Level
    fact: str
    fix: str = ""
    made: bool = True
