"""The devices of cases on a server: consumers of claims, the devices that claims got, and what to delete."""

from collections.abc import Mapping, Sequence

from tests.support.preemption.differential.access import (
    MERGE,
    collection_of,
    delete_at,
    items_at,
    name_of,
    request_at,
)
from tests.support.preemption.differential.generator import Case, Object
from tests.support.servers import Server


def delete_devices(server: Server, batch: Sequence[Case]) -> None:
    """Delete the slices, classes and claims of a batch; the finalizers are those of controllers."""
    made = [each for one in batch for each in one.objects]
    for path in {collection_of(each) for each in made if each["kind"] in ("ResourceSlice", "DeviceClass")}:
        delete_at(server, path)
    for path in {collection_of(each) for each in made if each["kind"] == "ResourceClaim"}:
        delete_at(server, path)
        for each in items_at(server, path):
            request_at(server, "PATCH", f"{path}/{name_of(each)}", {"metadata": {"finalizers": None}}, MERGE)


def reserved(wanted: Object, uids: Mapping[str, str]) -> Object:
    """Return a claim for devices with the UIDs that the server gave its consumers, if they exist."""
    if wanted["kind"] != "ResourceClaim" or "status" not in wanted:
        return wanted
    status = wanted["status"]
    consumers = [{**each, "uid": uids.get(each["uid"], each["uid"])} for each in status["reservedFor"]]
    return {**wanted, "status": {**status, "reservedFor": consumers}}


def devices_of_claims(server: Server, namespace: str, before: Sequence[Object]) -> dict[str, list[str]]:
    """Return the devices of the claims that had none, by claim, in the form of Answer."""
    open_claims = {
        name_of(each)
        for each in before
        if each["kind"] == "ResourceClaim" and "allocation" not in each["status"]
    }
    if not open_claims:
        return {}
    claims = items_at(server, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
    return {
        name_of(each): [
            f"{one['request']} {one['driver']} {one['pool']} {one['device']}"
            for one in each["status"]["allocation"]["devices"]["results"]
        ]
        for each in claims
        if name_of(each) in open_claims and "allocation" in each.get("status", {})
    }
