"""The scripts of the differential on two servers at once, for breadth beside the table of cases.

A script names its objects by ordinal, because only servers decide which exist. Here the objects exist that
both servers have; an object that only one accepted leaves the script. Default classes are left out, because
concurrent scripts would share them, and so are generated names, which differ.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tests.support.admission.edits import drop, edited, put
from tests.support.admission.generator import Change, Create, Delete, Kind, Replace, Scenario, Step
from tests.support.admission.recording import CURRENT
from tests.support.parity import scene
from tests.support.parity.case import Case
from tests.support.parity.compare import Exchange, found, manifest
from tests.support.parity.sides import Document, Side, Sides, Way

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_PROTECTED = {
    Kind.GROUP: ["scheduling.k8s.io/podgroup-protection"],
    Kind.COMPOSITE: ["scheduling.k8s.io/compositepodgroup-protection"],
}


class _Held(NamedTuple):
    sent: Document
    stored: list[Document]  # as stored on each side


def run(sides: Sides, scenario: Scenario, *kinds: Kind) -> Iterator[Exchange]:
    """Run a script's steps of these kinds in a new namespace, whose name is part of the classes' names."""
    for side in sides:
        scene.make(side, "/api/v1/namespaces", {"metadata": {"name": scenario.namespace}})
    script = _Script(sides, scenario, kinds)
    for number, step in enumerate(scenario.steps):
        yield from script.play(f"{scenario.namespace}, step {number}", step)


class _Script:
    def __init__(self, sides: Sides, scenario: Scenario, kinds: Collection[Kind]) -> None:
        self.sides = sides
        self.kinds = kinds
        self.namespace = scenario.namespace
        self.classes: dict[str, int] = {}
        self.held: dict[tuple[str, str], _Held] = {}

    def play(self, name: str, step: Step) -> Iterator[Exchange]:
        match step:
            case Create(document) if document["kind"] == Kind.CLASS and "name" in document["metadata"]:
                # A default would apply to all scripts, and a finalizer would keep the deleted objects.
                self.create_class(
                    edited(document, [put("globalDefault", False), drop("metadata/finalizers")])
                )
            case Delete(Kind.CLASS, str() as which):
                self.delete_class(which)
            case Create(document) | Replace(document) if self.compared(document):
                way = Way.CREATE if isinstance(step, Create) else Way.REPLACE_BLINDLY
                yield self.written(name, way, document, [(document, None)] * 2)
            case Change(kind) if kind in self.kinds:
                yield from self.changed(name, step)
            case Delete(kind) if kind in self.kinds:
                self.delete(step)
            case _:
                pass

    def compared(self, document: Document) -> bool:
        metadata = document["metadata"]
        named = metadata.get("name") or not metadata.get("generateName")
        return bool(document["kind"] in self.kinds and named)

    def written(
        self,
        name: str,
        way: Way,
        sent: Document,
        wanted: Sequence[tuple[Document, Document | None]],
        subresource: str = "",
    ) -> Exchange:
        native, podium = (
            side.write(way, *what, subresource=subresource)
            for side, what in zip(self.sides, wanted, strict=True)
        )
        case = Case("generated", name, sent["kind"], sent, subresource="status" if subresource else "")
        stored: list[Document | None] = [None, None]
        if native.allowed or podium.allowed:
            stored = [found(side, sent) for side in self.sides]
            self.hold(sent, both=native.allowed == podium.allowed)
        return Exchange(
            case=case,
            way=way,
            dry=False,
            native=native,
            podium=podium,
            native_stored=stored[0],
            podium_stored=stored[1],
        )

    def hold(self, sent: Document, *, both: bool = True) -> None:
        """Store the current objects; an object that only one server has leaves the script."""
        key = (sent["kind"], sent["metadata"]["name"])
        read = [side.read(sent) for side in self.sides]
        stored = [one for one in read if one is not None]
        self.held.pop(key, None)
        if both and len(stored) == len(read):
            self.held[key] = _Held(sent, stored)

    def changed(self, name: str, step: Change) -> Iterator[Exchange]:
        key = self.pick(step.kind, step.pick)
        if key is None:
            return
        held = self.held[key]
        bases = [held.sent] * 2 if step.base == "sent" else [manifest(stored) for stored in held.stored]
        edits = [edit for edit in step.edits if edit.path[0] != "apiVersion"]
        wanted = [edited(base, edits) for base in bases]
        for document in wanted:
            # The generator knows the version of neither object.
            document["metadata"].pop("resourceVersion", None)
            if step.version not in ("", CURRENT):
                document["metadata"]["resourceVersion"] = step.version
        way = Way.REPLACE if step.version == CURRENT else Way.REPLACE_BLINDLY
        pairs = list(zip(wanted, held.stored, strict=True))
        yield self.written(name, way, wanted[0], pairs, step.subresource)

    def delete(self, step: Delete) -> None:
        """Delete on both servers, with the finalizer that only native groups have."""
        key = self.pick(step.kind, step.pick)
        if key is None:
            return
        held = self.held[key]
        for side in self.sides:
            path = side.place(held.sent)
            side.client.request("DELETE", path, {"gracePeriodSeconds": 0})
            left = side.read(held.sent)
            if left is not None and left["metadata"].get("finalizers") == _PROTECTED.get(step.kind, ()):
                body = {"metadata": {"finalizers": None}}
                side.client.request("PATCH", path, body, "application/merge-patch+json")
        self.hold(held.sent)

    def pick(self, kind: Kind, ordinal: int | str) -> tuple[str, str] | None:
        if isinstance(ordinal, str):
            return (kind, ordinal) if (kind, ordinal) in self.held else None
        existing = [key for key in self.held if key[0] == kind]
        return existing[ordinal % len(existing)] if existing else None

    def create_class(self, document: Document) -> None:
        codes = {self.answered(side, "POST", _CLASSES, document) for side in self.sides}
        assert len(codes) == 1, f"{document}: {codes}"
        if codes == {201}:
            name = document["metadata"]["name"]
            self.classes[name] = document.get("value") or 0
            for side in self.sides:
                scene.until_resolved(side, name, self.classes[name], self.namespace)

    def delete_class(self, name: str) -> None:
        if self.classes.pop(name, None) is None:
            return
        for side in self.sides:
            self.answered(side, "DELETE", f"{_CLASSES}/{name}")
            scene.until_unknown(side, name, self.namespace)

    def answered(self, side: Side, method: str, path: str, body: Any = None) -> int:
        return side.client.request(method, path, body)[0]
