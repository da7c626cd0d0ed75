"""An answer names the kinds of storage and devices that it lacks, if a pod has claims or disks."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.calling import Podium, calling

from podium.answers.assumptions import PLANNED_DEVICES
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.load import (
    DEVICE_KINDS,
    NOT_FOR_DEVICES,
    NOT_FOR_VOLUMES,
    NOT_IN_INPUT,
    STORAGE_KINDS,
)

CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
CLAIMED = (*STORAGE_KINDS, *DEVICE_KINDS)
MISSING = 'missing permission: list storageclasses (API group "storage.k8s.io") cluster-wide'
INFO = {"apiVersion": "cli.podium.dev/v1", "kind": "ClusterInfo", "server": "v1.37.0", "scheduling": True}
# The kinds of storage and devices in a dump of this version, empty.
LISTS: list[dict[str, Any]] = [
    {"apiVersion": api_version, "kind": f"{kind}List", "items": []}
    for api_version, kind in SCHEDULING_READS
    if kind in CLAIMED
]
OLDER, KUBECTLS = (dict.fromkeys(STORAGE_KINDS, why) for why in (NOT_FOR_VOLUMES, NOT_IN_INPUT))
NO_DEVICES, NO_DEVICE_LISTS = (dict.fromkeys(PLANNED_DEVICES, why) for why in (NOT_FOR_DEVICES, NOT_IN_INPUT))
NO_SLICES = 'missing permission: list resourceslices (API group "resource.k8s.io") cluster-wide'
NEWER = INFO | {"storage": True, "devices": True}
DISK = {"gcePersistentDisk": {"pdName": "d"}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"}},
}


def _pod(
    name: str, volume: dict[str, Any] | None, node: str | None = None, *, devices: bool = False
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "token", "projected": {}}, *([{"name": "data", **volume}] if volume else [])],
        "priority": 0,
    }
    if devices:
        spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": "gpus"}]
    if node is not None:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "t", "uid": name},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }


@pytest.fixture(params=["whatif", "why"])
def asked(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Any:
    """Return a function that returns what `whatif` or `why` did not know of a pending pod, by kind."""
    podium: Podium = calling(str(request.param), monkeypatch, tmp_path)

    def unknown(*objects: dict[str, Any]) -> dict[str, str]:
        items = [NODE, {"apiVersion": "v1", "kind": "PodList", "items": []}, *objects]
        Path("c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
        arguments = ("--pod", "t/p") if request.param == "whatif" else ("pod", "t/p")
        answer = podium(*arguments, "-f", "c.json", "-o", "json").json
        lines = answer["notRead"] if request.param == "whatif" else answer["unknown"]
        pairs = (line.split(": ", 1) for line in lines)
        return {kind: why for kind, why in pairs if kind in CLAIMED}

    return unknown


@pytest.mark.parametrize(
    ("volume", "info", "wanted"),
    [
        pytest.param(CLAIM, [INFO], OLDER, id="an older dump"),
        pytest.param(CLAIM, [], KUBECTLS, id="lists of kubectl"),
        pytest.param(DISK, [INFO], OLDER, id="a disk"),
        pytest.param(
            *(CLAIM, [INFO | {"storage": True, "unread": {"StorageClass": MISSING}}, *LISTS]),
            {"StorageClass": MISSING},
            id="a dump by a user without a right",
        ),
        pytest.param(CLAIM, [INFO | {"storage": True}, *LISTS], {}, id="a dump of this version"),
        pytest.param(None, [INFO], {}, id="no claim"),
    ],
)
def test_the_kinds_that_were_not_read_are_named(
    asked: Any, volume: dict[str, Any] | None, info: list[dict[str, Any]], wanted: dict[str, str]
) -> None:
    assert asked(*info, _pod("p", volume)) == wanted


@pytest.mark.parametrize(
    ("info", "wanted"),
    [
        pytest.param([INFO | {"storage": True}], NO_DEVICES, id="an older dump"),
        pytest.param([], NO_DEVICE_LISTS, id="lists of kubectl"),
        pytest.param(
            [NEWER | {"unread": {"ResourceSlice": NO_SLICES}}, *LISTS],
            {"ResourceSlice": NO_SLICES},
            id="a dump by a user without a right",
        ),
        pytest.param([NEWER, *LISTS], {}, id="a dump of this version"),
        pytest.param(
            [NEWER, *(each for each in LISTS if each["kind"] != "ResourceClaimTemplateList")],
            {},
            id="templates, which no plan reads",
        ),
    ],
)
def test_the_kinds_of_devices_that_were_not_read_are_named(
    asked: Any, info: list[dict[str, Any]], wanted: dict[str, str]
) -> None:
    assert asked(*info, _pod("p", None, devices=True)) == wanted


OFFERED = {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10", "example.com/gpu": "1"}}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}
WITHOUT_SLICES = [NEWER | {"unread": {"ResourceSlice": NO_SLICES}}, *LISTS]


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        pytest.param([], NO_DEVICE_LISTS, id="a resource that no node offers"),
        pytest.param([NODE | {"status": OFFERED}], {}, id="a resource of a device plugin"),
        pytest.param(
            [*WITHOUT_SLICES, NODE | {"status": OFFERED}, CLASS],
            {"ResourceSlice": NO_SLICES},
            id="a resource of a class, and of a device plugin",
        ),
        pytest.param([NEWER, *LISTS], {}, id="a dump of this version"),
    ],
)
def test_the_kinds_of_devices_are_named_for_an_extended_resource(
    asked: Any, objects: list[dict[str, Any]], wanted: dict[str, str]
) -> None:
    """A class may provide the resource on nodes that do not offer it."""
    pod = _pod("p", None)
    amounts = {"cpu": "1", "example.com/gpu": "1"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": {"example.com/gpu": "1"}}
    assert asked(*objects, pod) == wanted


def test_a_plan_without_claims_beside_pods_with_claims_lacks_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Victims may be chosen among pods with claims, whose volumes decide where they may run."""
    podium = calling("whatif", monkeypatch, tmp_path)
    items = [INFO, NODE, _pod("p", None), _pod("other", CLAIM, "n1")]
    Path("c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    done = podium("--pod", "t/p", "-f", "c.json")
    assert f"CSINode: {NOT_FOR_VOLUMES}" in " ".join(done.stdout.split())
