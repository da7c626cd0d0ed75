"""The objects of a file that is added to a cluster: each with a name, once, and not too many of them."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from podium.api.foreign import OWNERS, OwnerObject
from podium.api.meta import ObjectMeta
from podium.api.reads import Kind, Read
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.load import CLUSTER_INFO, CLUSTER_SCOPED
from podium.documents.split import Document
from podium.findings import ObjectError, ObjectRef, group_of
from podium.ops.makers import MOST_PODS, generated, size_of, uid_of

T = TypeVar("T")


class Added(NamedTuple):
    """An object of the file: how it is read, and the whole of it with a name, namespace, uid and age."""

    document: Document
    read: Read
    value: dict[str, Any]

    @property
    def ref(self) -> ObjectRef:
        """Give its identity."""
        meta = self.value["metadata"]
        return ObjectRef(
            self.document.apiVersion, self.document.kind, meta.get("namespace", ""), meta["name"]
        )

    def typed(self) -> Any:
        """Give it as it is read."""
        return msgspec.convert(self.value, self.read.type)

    def owner(self) -> OwnerObject:
        """Give an object that makes pods, whole."""
        kind = OWNERS[self.document.apiVersion, self.document.kind]
        owner: OwnerObject = msgspec.convert(self.value, kind.type)
        return owner

    def placed(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of this object; what it cannot work with becomes a ReadError of this document."""
        try:
            return function(*arguments)
        except ObjectError as error:
            raise self.document.error(error.problem, error.field) from None


def read_added(documents: Iterable[Document], now: str) -> tuple[list[Added], list[str]]:
    """Give the objects that plans depend on, and say what was passed over. Raises ReadError.

    An object without a name gets the one that a server would generate, without an age the age of `now`.
    """
    found: dict[tuple[str, str, str, str], Added] = {}
    others: Counter[str] = Counter()
    for document in documents:
        read = SCHEDULING_READS.get((document.apiVersion, document.kind))
        if read is None:
            if (document.apiVersion, document.kind) != CLUSTER_INFO and not document.kind.endswith("List"):
                others[f"{document.apiVersion} {document.kind}"] += 1
            continue
        added = _named(document, read, now, len(found))
        ref = added.ref
        known = found.setdefault((group_of(ref.apiVersion), ref.kind, ref.namespace, ref.name), added)
        if known is not added:
            where = known.document.origin
            raise document.error(f"{ref} is in the input twice, first in {where}; leave one out")
    _check_size(found.values())
    listed = ", ".join(f"{number:,} {kind}" for kind, number in sorted(others.items()))
    return list(found.values()), [f"passed over, no plan depends on them: {listed}"] if others else []


def _named(document: Document, read: Read, now: str, index: int) -> Added:
    typed: Any = document.read(read.type)
    meta: ObjectMeta = typed.metadata
    namespace = "" if read.kind in CLUSTER_SCOPED else meta.namespace or "default"
    if not meta.name and not meta.generateName:
        raise document.error("is missing; give the object a name", "metadata.name")
    name = meta.name or generated(meta.generateName or "", namespace, index)
    value = document.value()
    # What was taken from a server is added as if it were new.
    sent = {
        key: each for key, each in value["metadata"].items() if key not in ("resourceVersion", "namespace")
    }
    sent |= {"name": name, "uid": meta.uid or uid_of(document.kind, namespace, name)}
    sent |= {"creationTimestamp": meta.creationTimestamp or now}
    sent |= {"namespace": namespace} if namespace else {}
    return Added(document, read, {**value, "metadata": sent})


def _check_size(added: Iterable[Added]) -> None:
    """Refuse what would make more pods than anybody means, before any is made."""
    total = 0
    for each in added:
        if each.read.kind is Kind.OWNER:
            total += each.placed(size_of, each.owner())
        elif each.read.kind is Kind.POD:
            total += 1
        if total > MOST_PODS:
            problem = f"{each.ref} brings the file to {total:,} pods; {MOST_PODS:,} are planned for at most"
            raise each.document.error(problem)
