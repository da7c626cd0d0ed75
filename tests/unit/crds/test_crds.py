"""The rendered CustomResourceDefinitions, without a server: fresh, complete, bounded."""

from collections.abc import Iterator
from typing import Any

import pytest

from podium.api.minors import GROUP_MINORS, group_api
from podium.api.records import Owner, Party, PreemptionRecord, RecordedPlan
from podium.crds import definitions
from podium.documents.files import folder
from podium.documents.yamldoc import load_all
from podium.minors.minor import GroupApi
from podium.rules import compositegroup, podgroup, workload
from podium.rules.schema import Fact, StructSchema

# The definitions that an install applies.
ALL = [*definitions.crds(), definitions.records()]


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema inside a schema, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def test_the_checked_in_manifests_have_the_same_definitions() -> None:
    """Kubectl reads the checked-in YAML as these definitions."""
    files = (folder("manifests") / "crds").iterdir()
    checked_in = {path.stem: [*load_all(path.read_bytes())] for path in files}
    assert checked_in == {crd["metadata"]["name"]: [crd] for crd in ALL}


def test_names_are_found_under_podium_and_shadow_nothing() -> None:
    """The kinds have a category, and short names that no native kind has."""
    names = [crd["spec"]["names"] for crd in ALL]
    assert [each["categories"] for each in names] == [["podium"]] * len(ALL)
    assert {each["kind"]: each["shortNames"] for each in names} == {
        "PodGroup": ["ppg"],
        "Workload": ["pwl"],
        "CompositePodGroup": ["pcpg"],
        "PreemptionRecord": ["prec"],
    }


def test_v1alpha2_is_served_only_with_its_webhook() -> None:
    """Without conversion the server would return objects of one shape under the other version."""
    webhook = {
        "service": {"namespace": "podium-system", "name": "webhook", "path": "/convert"},
        "caBundle": "Cg==",
    }
    for given in (None, webhook):
        for crd in definitions.crds(given):
            served = {version["name"]: version["served"] for version in crd["spec"]["versions"]}
            older = {} if crd["spec"]["names"]["kind"] == "CompositePodGroup" else {"v1alpha2": bool(given)}
            assert served == {**older, "v1beta1": True}
            stored = [version["name"] for version in crd["spec"]["versions"] if version["storage"]]
            assert stored == ["v1beta1"]
    assert definitions.crds(webhook)[0]["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": webhook, "conversionReviewVersions": ["v1"]},
    }


@pytest.mark.parametrize("crd", ALL, ids=lambda crd: crd["spec"]["names"]["kind"])
def test_every_part_is_bounded_and_described(crd: dict[str, Any]) -> None:
    """Every list and text has a limit, for the size of an object and the cost budget of CEL."""
    versions = [version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"]]
    for path, schema in (each for version in versions for each in nodes(version)):
        if path in (".apiVersion", ".kind", ".metadata"):
            continue
        assert schema.get("description"), path
        if schema["type"] == "array":
            assert "maxItems" in schema, path
        if schema["type"] == "string":
            assert schema.keys() & {"maxLength", "enum", "format"}, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path


_OF_UPDATES = frozenset((Fact.IMMUTABLE, Fact.SET_ONCE, Fact.SAME_ITEMS))


def _stricter(schema: StructSchema, row: StructSchema, path: str, *, fixed: bool) -> Iterator[str]:
    """Yield the facts of a schema's table that a minor's row lacks; no update may change a fixed struct."""
    yield from (f"{path} {fact}" for fact in schema.facts.items() - row.facts.items())
    for name, field in row.by_name.items():
        known, here = schema.by_name[name], f"{path}.{name}"
        whole = fixed or Fact.IMMUTABLE in field.facts
        for fact, value in known.facts.items():
            if field.facts.get(fact) != value and not (whole and fact in _OF_UPDATES):
                yield f"{here} {fact}"
        # Templates contain templates.
        if known.shape is not None and field.shape is not None and field.shape is not row:
            yield from _stricter(known.shape, field.shape, here, fixed=whole)


@pytest.mark.parametrize("number", GROUP_MINORS)
@pytest.mark.parametrize("tables", [podgroup.SPECS, compositegroup.SPECS, workload.SPECS])
def test_the_schema_refuses_nothing_that_a_minor_allows(
    tables: dict[GroupApi, StructSchema], number: int
) -> None:
    """The schema is that of the newest minor in every cluster, and the webhook refuses the rest."""
    for version in ("v1alpha2", "v1beta1"):
        schema, row = (tables.get(group_api(version, minor)) for minor in (max(GROUP_MINORS), number))
        if schema is not None and row is not None:
            assert [*_stricter(schema, row, version, fixed=False)] == []


def test_the_schema_of_a_record_has_the_fields_that_are_written() -> None:
    """An API server prunes fields that the schema does not name, without an error."""
    (version,) = definitions.records()["spec"]["versions"]
    record = version["schema"]["openAPIV3Schema"]["properties"]
    assert {*record} == {*PreemptionRecord.__struct_fields__}
    recorded = record["plans"]["items"]["properties"]
    assert {*recorded} == {*RecordedPlan.__struct_fields__}
    for party in (recorded["preemptor"], recorded["units"]["items"]):
        assert {*party["properties"]} == {*Party.__struct_fields__}
        assert {*party["properties"]["owner"]["properties"]} == {*Owner.__struct_fields__}
