"""One line of `podium doctor`: a fact, how bad it is, and what to do about it.

A finding (`podium.findings`) is what is wrong with somebody's object by a rule; a check also says what is
well, and what could not be looked at, for who asks at night wants to know that it was looked at.
"""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad it is: a note is worth knowing, a warning may hurt one day, a problem does."""

    PROBLEM = "problem"
    WARNING = "warning"
    NOTE = "note"
    OK = "ok"


class Check(msgspec.Struct, frozen=True):
    """One check and its outcome, each text in one line; `fix` is empty where there is nothing to do.

    `made` is false where it could not be looked at.
    """

    name: str
    level: Level
    fact: str
    fix: str = ""
    made: bool = True
