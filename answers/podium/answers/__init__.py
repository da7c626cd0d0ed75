"""Questions about a cluster, as functions of values: no I/O, no clock, no rendering.

    >>> whatif(read("cluster.json.gz"), ("team-a", "trainer"))

`read` returns the cluster of files, which is the input of every question. A package of this one has the noun
of its answers, because a module with the name of a function would hide the function. Each name is imported on
first use, so a program that makes no plan does not import numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.answers.accounts.answer import why
    from podium.answers.admission import ExistingObjects, admit
    from podium.answers.audits.run import audit
    from podium.answers.whatifplans import whatif
    from podium.documents.reading import ClusterReading, read, read_objects

__all__ = ["ClusterReading", "ExistingObjects", "admit", "audit", "read", "read_objects", "whatif", "why"]

_HOMES = {
    "ExistingObjects": "podium.answers.admission",
    "admit": "podium.answers.admission",
    "audit": "podium.answers.audits.run",
    "ClusterReading": "podium.documents.reading",
    "read": "podium.documents.reading",
    "read_objects": "podium.documents.reading",
    "whatif": "podium.answers.whatifplans",
    "why": "podium.answers.accounts.answer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
