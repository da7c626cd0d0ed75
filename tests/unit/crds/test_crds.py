"""The rendered CustomResourceDefinitions, without a server: fresh, complete, bounded."""

from collections.abc import Iterator
from typing import Any

import pytest

from podium.api.records import Owner, Party, PreemptionRecord, RecordedPlan
from podium.crds import definitions
from podium.documents.packagedata import folder
from podium.documents.yamldoc import load_all

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
    """The kinds have a category, and no short name that another group's kind may have."""
    for crd in ALL:
        assert crd["spec"]["names"]["categories"] == ["podium"]
        assert "shortNames" not in crd["spec"]["names"]


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
