"""The pods and groups that a controller would create for an object that no server has stored.

Names, labels and owners are those that the controllers write, as far as scheduling reads them. They decide
the gang of a pod, the selectors that count it, and its position in the order. Where a controller picks random
letters, they are derived from the owner's name here, so the same file gives the same pods.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from podium.api.findings import ObjectError, ObjectRef
from podium.api.meta import OwnerReference

# apimachinery's letters of generated names, the length of the suffix, and the maximum length of the base.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
GENERATED_BASE = 58
_HASH = 10
# The problem of an object whose pods wait for other pods and then follow them: no single plan covers all.
ORDERED = "orders its pods, which plans do not support. Add the pods themselves"


class Copy(NamedTuple):
    """A pod of a template: its name, its labels beside the template's, and the node of a DaemonSet's pod."""

    name: str
    labels: dict[str, str]
    node: str = ""


class Batch(NamedTuple):
    """Pods of one template (a field path in the owner) that one controller creates.

    `role` is the name of a JobSet's role, `replica` the index in a LeaderWorkerSet. `claims` is the path of
    the volumeClaimTemplates from which a StatefulSet creates claims, empty for none.
    """

    template: str
    controller: OwnerReference
    copies: tuple[Copy, ...]
    role: str = ""
    replica: int | None = None
    claims: tuple[str, ...] = ()


class CreatedPods(NamedTuple):
    """The pods that are created at once for an object, and notes on the rest."""

    batches: tuple[Batch, ...]
    notes: tuple[str, ...] = ()

    def of_roles(self, names: Sequence[str | None]) -> list[Batch]:
        """Return the batches of some roles."""
        return [batch for batch in self.batches if batch.role in names]


class RequestedGroup(NamedTuple):
    """A group that a field of an object asks for: its name, its pods, and the value of the field.

    `default` is the policy without one in the field.
    """

    path: str
    name: str
    batches: Sequence[Batch]
    scheduling: Mapping[str, Any]
    default: str = "gang"


def uid_of(kind: str, namespace: str, name: str) -> str:
    """Return the uid of an object that no server has stored, always the same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def controller_reference(ref: ObjectRef) -> OwnerReference:
    """Return the reference to a controller that no server has stored."""
    uid = uid_of(ref.kind, ref.namespace, ref.name)
    return OwnerReference(ref.apiVersion, ref.kind, ref.name, uid, controller=True)


def generated(base: str, namespace: str, index: int = 0) -> str:
    """Return a name as generateName would; the index selects one of the 27^5 suffixes, all different."""
    base = base[:GENERATED_BASE]
    return base + _letters(_seed(f"{namespace}/{base}") + index, _SUFFIX)


def template_hash(ref: ObjectRef) -> str:
    """Return the hash of an object's template in labels and names."""
    return _letters(_seed(str(ref)), _HASH)


def ordinal(stateful_set: str, number: int, labels: Mapping[str, str] = {}) -> Copy:
    """Return a pod of a StatefulSet."""
    name = f"{stateful_set}-{number}"
    own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
    return Copy(name, {**labels, **own})


def value_at(value: object, *steps: str) -> Any:
    """Return the value at a path of an untyped document, or None if the path does not exist."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def refuse_order(ref: ObjectRef, field: str, annotations: Mapping[str, str] | None, *keys: str) -> None:
    """Raise ObjectError if an annotation makes pods wait for other pods and then follow them."""
    for key in keys:
        if annotations and annotations.get(key):
            raise ObjectError(ref, f"{field}[{key}]", ORDERED)


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _letters(number: int, count: int) -> str:
    """Return a number in the letters of generated names."""
    text = ""
    for _ in range(count):
        number, digit = divmod(number, len(_LETTERS))
        text += _LETTERS[digit]
    return text
