"""The specs of a manifest that the generated tables of fields describe, and look-ups in these tables.

`make podfields` generates the tables (podfields.json) from recorded servers. Each minor also has the entries
of its predecessor.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from podium import jsontext
from podium.api.fieldpath import at, parse_path
from podium.api.foreign import MANIFEST_OWNERS, OWNERS
from podium.api.podcreators import PodCreator
from podium.api.podmakers import POD_MAKERS, MadePods

POD = ("v1", "Pod")


class FieldTables(msgspec.Struct, frozen=True):
    """The tables, each by the first supported minor (the number) that has an entry."""

    fields: dict[int, dict[str, str]]
    """By type: its fields, each as `name`, or `name:Type` if it has fields of its own."""
    required: dict[int, dict[str, str]]
    """By `Type.field`: the server's message on its absence; empty if it counts as an empty object."""


class Spec(NamedTuple):
    """A part of a document: its path, its type in the tables, and its value, which may be absent.

    `own` are fields that the kind of the document adds to the type.
    """

    path: str
    kind: str
    value: Any
    own: frozenset[str] = frozenset()


@functools.cache
def _tables() -> FieldTables:
    return jsontext.parse(Path(__file__).with_name("podfields.json").read_bytes(), FieldTables)


def specs(document: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the spec of a Pod or of an owner of pods that decodes; of a custom resource those of its pods."""
    fields = _tables().fields
    kind = (document["apiVersion"], document["kind"])
    of_kind = f"{document['kind']}Spec"
    if kind == POD or (kind in OWNERS and of_kind in fields[min(fields)]):
        yield Spec("spec", of_kind, document.get("spec"))
    elif kind in MANIFEST_OWNERS:
        yield from _pod_specs(msgspec.convert(document, MANIFEST_OWNERS[kind].type), document)


def validates_pods(document: Mapping[str, Any]) -> bool:
    """Return whether a server validates the pod specs of a kind, and not only the types of their fields.

    The schemas of other projects' custom resources differ in what they require.
    """
    kind = (document["apiVersion"], document["kind"])
    return kind == POD or (kind in MANIFEST_OWNERS and kind not in POD_MAKERS)


def _pod_specs(owner: PodCreator, document: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the pod specs of an owner that was decoded from `document`."""
    if not isinstance(owner, MadePods):
        for path, _ in owner.templates():
            yield Spec(f"{path}.spec", "PodSpec", at(document, parse_path(path)).get("spec"))
        return
    for role in owner.roles():
        # A Spark driver or a step of a Workflow has some fields of a pod among its own.
        if role.spec_path != role.path and role.template.get("spec") is not None:
            yield Spec(role.spec_path, "PodSpec", at(document, parse_path(role.spec_path)), role.own)


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
