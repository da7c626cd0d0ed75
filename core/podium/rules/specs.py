"""The specs of a manifest that the generated tables of fields describe, and look-ups in these tables."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from podium.api.fieldpath import at, parse_path
from podium.api.foreign import OWNERS
from podium.rules.podfields import FIELDS, REQUIRED

POD = ("v1", "Pod")


class Spec(NamedTuple):
    """A part of a document: its path, its type in the tables, and its value, which may be absent."""

    path: str
    kind: str
    value: Any


def specs(document: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the spec of a Pod or of an owner of pods that decodes; of a custom resource those of its pods."""
    kind = (document["apiVersion"], document["kind"])
    of_kind = f"{document['kind']}Spec"
    if kind == POD or (kind in OWNERS and of_kind in FIELDS[min(FIELDS)]):
        yield Spec("spec", of_kind, document.get("spec"))
    elif kind in OWNERS:
        for path, _ in msgspec.convert(document, OWNERS[kind].type).templates():
            template = at(document, parse_path(path))
            yield Spec(f"{path}.spec", "PodSpec", template.get("spec"))


@functools.cache
def fields_of(kind: str, minor: int) -> dict[str, str]:
    """Return the fields of a type with their types, empty for a value without fields of its own."""
    known = [types.get(kind, "") for first, types in FIELDS.items() if first <= minor]
    pairs = (word.partition(":") for words in known for word in words.split())
    return {name: to for name, _, to in pairs}


@functools.cache
def required_of(minor: int) -> dict[str, str]:
    """Return the server's words on the absence of each required field, by `Type.field`."""
    return {
        name: said for first, said_of in REQUIRED.items() if first <= minor for name, said in said_of.items()
    }
