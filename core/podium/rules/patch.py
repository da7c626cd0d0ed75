"""The mutations of admission as one minimal JSON patch (RFC 6902) against the object as it was sent.

Class, integer and preemption policy are always written together: the API server runs its own Priority plugin
again after a webhook, and a class without its integer would then be refused. What decoding defaults, what
the strategy drops and the finalizer are not mutations, so they are in no patch; applying a patch and
reviewing again gives an empty one.
"""

from collections.abc import Mapping
from typing import Any

# Written together, or not at all.
_TRIPLE = ("priorityClassName", "priority", "preemptionPolicy")


def spec_patch(sent: Mapping[str, Any], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the operations that bring `spec` of the sent object to hold `changes`; none if it does already."""
    spec = sent.get("spec")
    present: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    due = {name: value for name, value in changes.items() if not _equal(present, name, value)}
    if not due:
        return []
    operations: list[dict[str, Any]] = []
    if spec is None:
        operations.append({"op": "add", "path": "/spec", "value": {}})
    triple = {name: changes[name] for name in _TRIPLE if name in changes} if due.keys() & set(_TRIPLE) else {}
    for name, value in {**triple, **due}.items():
        operations.append(
            {"op": "replace" if name in present else "add", "path": f"/spec/{name}", "value": value}
        )
    return operations


def _equal(present: Mapping[str, Any], name: str, value: Any) -> bool:
    return name in present and present[name] == value
