"""The specs of a manifest that the generated tables of fields describe, and look-ups in these tables.

`make podfields` generates the tables (podfields.json) from recorded servers. Each minor also has the entries
of its predecessor.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from podium import jsontext
from podium.api.podkinds.custom import CustomPodCreator
from podium.api.podkinds.kind import Spec
from podium.api.podkinds.table import LISTED_KINDS, OWNER_KINDS

POD = ("v1", "Pod")


class FieldTables(msgspec.Struct, frozen=True):
    """The tables, each by the first supported minor (the number) that has an entry."""

    fields: dict[int, dict[str, str]]
    """By type: its fields, each as `name`, or `name:Type` if it has fields of its own."""
    required: dict[int, dict[str, str]]
    """By `Type.field`: the server's message on its absence; empty if it counts as an empty object."""


@functools.cache
def _tables() -> FieldTables:
    return jsontext.parse(Path(__file__).with_name("podfields.json").read_bytes(), FieldTables)


def specs(document: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the spec of a Pod or of an owner of pods that decodes; of a custom resource those of its pods."""
    fields = _tables().fields
    kind = (document["apiVersion"], document["kind"])
    of_kind = f"{document['kind']}Spec"
    if kind == POD or (kind in LISTED_KINDS and of_kind in fields[min(fields)]):
        yield Spec("spec", document.get("spec"), kind=of_kind)
    elif kind in OWNER_KINDS:
        yield from msgspec.convert(document, OWNER_KINDS[kind].type).pod_specs(document)


def validates_pods(document: Mapping[str, Any]) -> bool:
    """Return whether a server validates the pod specs of a kind, and not only the types of their fields.

    The schemas of other projects' custom resources differ in what they require.
    """
    kind = (document["apiVersion"], document["kind"])
    return kind == POD or (kind in OWNER_KINDS and OWNER_KINDS[kind].type is not CustomPodCreator)


@functools.cache
def fields_of(kind: str, minor: int) -> dict[str, str]:
    """Return the fields of a type with their types, empty for a value without fields of its own."""
    known = [types.get(kind, "") for first, types in _tables().fields.items() if first <= minor]
    pairs = (word.partition(":") for words in known for word in words.split())
    return {name: to for name, _, to in pairs}


@functools.cache
def required_of(minor: int) -> dict[str, str]:
    """Return the server's words on the absence of each required field, by `Type.field`."""
    return {
        name: message
        for first, messages in _tables().required.items()
        if first <= minor
        for name, message in messages.items()
    }
