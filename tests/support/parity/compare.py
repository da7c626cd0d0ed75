"""Sends one case to both servers in every way of writing, and lists the differences and their explanations.

A dry run comes first. The write after it shows that the dry run left nothing behind: it is a create of the
same name, or an update of the same resourceVersion.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from tests.support.admission.edits import edited
from tests.support.admission.recording import canonical
from tests.support.parity.case import Case
from tests.support.parity.sides import (
    APPLIES,
    CREATES,
    UPDATES,
    Answer,
    Document,
    Side,
    Sides,
    Way,
    in_common,
)

# The ways that /status accepts; server-side apply there has another manager.
_STATUS_WAYS = (Way.REPLACE, Way.MERGE, Way.JSON, Way.APPLY_OVER)
# The parts of a stored object's metadata that stay in a manifest.
_KEPT = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A write as both servers answered it; `stored` is the object that a read finds afterwards."""

    case: Case
    way: Way
    dry: bool
    native: Answer
    podium: Answer
    native_stored: Document | None = None
    podium_stored: Document | None = None

    def __str__(self) -> str:
        """Return the request and both answers, for the message of a failed test."""
        lines = [f"{self.case} by {self.way}{' as a dry run' if self.dry else ''}"]
        pairs = [(field, getattr(self.native, field), getattr(self.podium, field)) for field in _COMPARED]
        pairs.append(("stored", self.native_stored, self.podium_stored))
        for what, native, podium in pairs:
            if native != podium:
                lines += [f"  {what}", f"    native: {_text(native)}", f"    podium: {_text(podium)}"]
        return "\n".join(lines)

    @property
    def equal(self) -> bool:
        return self.native == self.podium and self.native_stored == self.podium_stored


_COMPARED = ("code", "reason", "message", "causes", "object")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def exchanges(sides: Sides, namespace: str, case: Case, number: int, *, full: bool) -> Iterator[Exchange]:
    """Send a case to both servers; every way has objects of its own.

    `full` tries every way that fits, each as a dry run too. Otherwise a change is tried in three of the ways,
    chosen by the case's `number`. Dry runs are then those of a create and of a merge patch.
    """
    ways: Sequence[Way] = CREATES if not case.update else _STATUS_WAYS if case.subresource else UPDATES
    if case.update and not full:
        ways = [ways[(number + step) % len(ways)] for step in (0, 2, 5)]
    for way in dict.fromkeys(ways):
        runs = (True, False) if full or way in (Way.CREATE, Way.MERGE) else (False,)
        yield from _tried(sides, named(case, way, namespace), case, way, runs)


def named(case: Case, way: str, namespace: str) -> Document:
    """Return the document of a case with a unique name that contains part of the case's name."""
    stem = "".join(letter if letter.isalnum() else "-" for letter in str(case).lower())
    given = case.document.get("metadata", {})
    name = given.get("name") or stem.strip("-")[:40].strip("-")
    metadata = {**given, "name": f"{name}-{way}", "namespace": namespace}
    return {"kind": case.kind, **case.document, "metadata": metadata}


def _tried(sides: Sides, sent: Document, case: Case, way: Way, runs: Sequence[bool]) -> Iterator[Exchange]:
    wanted = [_wanted(side, sent, case, way) for side in sides]
    for dry in runs:
        native, podium = (
            side.write(way, *what, dry=dry, subresource=case.subresource)
            for side, what in zip(sides, wanted, strict=True)
        )
        stored = [None if dry else found(side, sent) for side in sides]
        yield Exchange(
            case=case,
            way=way,
            dry=dry,
            native=native,
            podium=podium,
            native_stored=stored[0],
            podium_stored=stored[1],
        )


def _wanted(side: Side, sent: Document, case: Case, way: Way) -> tuple[Document, Document | None]:
    """Return the object to write, and the stored one: an update's first object."""
    if case.edits is None:
        return sent, None
    first = side.write(Way.APPLY if way is Way.APPLY else Way.CREATE, sent)
    assert first.allowed, f"{case}: {first}"
    if case.deleted:
        code, answer = side.client.request("DELETE", side.place(sent))
        assert code == 200, answer
    stored = side.read(sent)
    assert stored is not None
    base = sent if way in APPLIES or case.base == "sent" else manifest(stored)
    return edited(base, case.edits), stored


def manifest(stored: Document) -> Document:
    """Return a stored object as `kubectl edit` shows it, without fields that only the server sets."""
    metadata = {key: value for key, value in stored["metadata"].items() if key in _KEPT}
    return {**stored, "metadata": metadata}


def found(side: Side, document: Document) -> Document | None:
    found = side.read(document)
    return None if found is None else canonical(in_common(found))
