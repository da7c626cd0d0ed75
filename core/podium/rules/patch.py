"""The mutations of admission as one minimal JSON patch (RFC 6902) against the object as it was sent.

Class, integer and preemption policy are always in the same patch. The API server runs its own Priority plugin
again after a webhook, and would then refuse a class without its integer. Defaults of decoding, fields that
the strategy drops and the finalizer are not mutations, so they are in no patch. Applying a patch and
reviewing again gives an empty patch.
"""

from collections.abc import Mapping
from typing import Any


def spec_patch(
    sent: Mapping[str, Any], changes: Mapping[str, Any], appended: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the operations that set `changes` in `spec` of the sent object; none if it has them already.

    `appended` are elements for the end of lists in `spec`, by the list's name.
    """
    spec = sent.get("spec")
    present: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    operations = [
        {"op": "replace" if name in present else "add", "path": f"/spec/{name}", "value": value}
        for name, value in changes.items()
        if name not in present or present[name] != value
    ]
    operations += [
        {"op": "add", "path": f"/spec/{name}/-", "value": value}
        if present.get(name)
        else {"op": "add", "path": f"/spec/{name}", "value": [value]}
        for name, value in appended.items()
    ]
    if operations and spec is None:
        operations.insert(0, {"op": "add", "path": "/spec", "value": {}})
    return operations
