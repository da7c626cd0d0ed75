"""Dumps of real servers, read with get and list only, give the audit report of the server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.connection.cluster import (
    READ_ONLY,
    create,
    create_class,
    create_group,
    create_pod,
    kubeconfig_of,
)
from tests.support.connection.devices import create_devices
from tests.support.connection.storage import DRIVER, create_storage
from tests.support.dump import anonymous
from tests.support.servers import Server, exclusive, in_turn
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.schedulable import SCHEDULING_READS
from podium.cli.commands.audit import command as audit
from podium.cli.commands.dump import command as dump
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.documents.load import load_state
from podium.documents.split import split

pytestmark = pytest.mark.server


@pytest.fixture(scope="module", params=in_turn(__name__))
def divergent(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server with a divergent group for this module, since the report covers all objects on it."""
    with exclusive(RELEASES[request.param]) as server:
        create(server, "/api/v1/namespaces", {"metadata": {"name": "team"}})
        gold, bronze = create_class(server, 1000), create_class(server, 10)
        create_group(server, "team", "train", gold)
        for number, class_name in enumerate((gold, gold, bronze)):
            job = {"batch.kubernetes.io/job-name": "train", "secret-label": "hunter2"}
            create_pod(
                server, "team", f"train-{number}", class_name, labels=job, annotations={"note": "hunter2"}
            )
        budget = {
            "metadata": {"name": "b"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}},
        }
        create(server, "/apis/policy/v1/namespaces/team/poddisruptionbudgets", budget)
        create_storage(server, "team")
        create_devices(server, "team")
        yield server


def _json(kubeconfig: Path) -> Any:
    done = CliRunner().invoke(audit, ["--kubeconfig", str(kubeconfig), "-A", "-o", "json"])
    assert done.exit_code == 3, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("flags", [[], ["--pseudonyms"]], ids=["plain", "pseudonyms"])
def test_the_audit_of_the_dump_is_the_audit_of_the_server(
    divergent: Server, tmp_path: Path, flags: list[str]
) -> None:
    """The file has no field that no rule reads."""
    reader = kubeconfig_of(divergent, "team", READ_ONLY, tmp_path)
    path = tmp_path / "dump.json"
    done = CliRunner().invoke(dump, ["--kubeconfig", str(reader), "-A", "--output-file", str(path), *flags])
    assert done.exit_code == 0, done.stderr
    offline = CliRunner().invoke(audit, ["-f", str(path), "-o", "json", "--strict"])
    assert offline.exit_code == 3
    live, report = _json(reader), json.loads(offline.stdout)
    assert "pod-priority-differs" in {found["rule"] for found in live["findings"]}
    if flags:
        assert anonymous(report) == anonymous(live)
    else:
        assert report == live
    text = path.read_text()
    stored = ("acme", "fast-class", "vol-0123", "storage-node", '"disk"', '"east"', '"zone"')
    devices = ("secret-model", "device-node", "gpu-0", "pci0000", "gpu-claim", "gpu-template", '"gpus"')
    named = (*stored, *devices) if flags else ()
    for secret in ("hunter2", "secret-project", "secret-label", *named):
        assert secret not in text


def test_a_plan_can_be_made_from_the_dump(divergent: Server, tmp_path: Path) -> None:
    """The dump has pods with scheduling fields, claims, volumes and namespaces, by get and list alone."""
    reader = kubeconfig_of(divergent, "team", READ_ONLY, tmp_path)
    path = tmp_path / "dump.json"
    done = CliRunner().invoke(dump, ["--kubeconfig", str(reader), "-A", "--output-file", str(path)])
    assert done.exit_code == 0, done.stderr
    state = load_state(split(path.read_bytes(), str(path)), strict=True, reads=SCHEDULING_READS).state
    live = load_live(KubeOptions(kubeconfig=str(reader), all_namespaces=True), SCHEDULING_READS).state
    assert state.unread == live.unread
    assert state.pods["team", "train-0"].spec == live.pods["team", "train-0"].spec
    assert state.claims["team", "data"].bound
    assert state.volumes["disk"].spec == live.volumes["disk"].spec
    assert state.storage_classes["fast-class"].provisioner == DRIVER
    for index in ("storage_classes", "csi_nodes", "csi_drivers", "storage_capacities", "attachments"):
        dumped, read = getattr(state, index), getattr(live, index)
        assert set(dumped) == set(read)
        assert {key: _described(each) for key, each in dumped.items()} == {
            key: _described(each) for key, each in read.items()
        }
    assert len(state.csi_nodes) == len(state.csi_drivers) == len(state.attachments) == 1
    assert set(state.namespaces) == set(live.namespaces)


def test_devices_come_back_from_the_dump(divergent: Server, tmp_path: Path) -> None:
    """Each object is the server's, but for parameters of drivers, annotations and labels."""
    reader = kubeconfig_of(divergent, "team", READ_ONLY, tmp_path)
    path = tmp_path / "dump.json"
    done = CliRunner().invoke(dump, ["--kubeconfig", str(reader), "-A", "--output-file", str(path)])
    assert done.exit_code == 0, done.stderr
    state = load_state(split(path.read_bytes(), str(path)), strict=True, reads=SCHEDULING_READS).state
    live = load_live(KubeOptions(kubeconfig=str(reader), all_namespaces=True), SCHEDULING_READS).state
    for index in ("resource_slices", "resource_claims", "claim_templates", "device_classes"):
        dumped, read = getattr(state, index), getattr(live, index)
        assert len(dumped) == 1
        assert _without_private(dumped) == _without_private(read)
    claim = state.resource_claims["team", "gpu-claim"]
    assert claim.status is not None
    assert claim.status.allocation is not None
    assert (claim.metadata.uid, bool(claim.status.reservedFor)) == (
        live.resource_claims["team", "gpu-claim"].metadata.uid,
        True,
    )


def _without_private(objects: Any) -> Any:
    """Return objects by name without annotations, labels and parameters, whose content no dump has."""
    private = ("annotations", "labels", "parameters")

    def pruned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: pruned(each) for key, each in value.items() if key not in private}
        return [pruned(each) for each in value] if isinstance(value, list) else value

    return {key: pruned(msgspec.json.decode(msgspec.json.encode(each))) for key, each in objects.items()}


def _described(stored: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of an object beside its metadata."""
    return {name: getattr(stored, name) for name in stored.__struct_fields__ if name != "metadata"}


def test_volumes_and_devices_that_may_not_be_read_are_named(divergent: Server, tmp_path: Path) -> None:
    """The rest is dumped, and the dump names the missing kinds."""
    rules = [{"apiGroups": ["*"], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}]
    reader = kubeconfig_of(divergent, "team", rules, tmp_path)
    path = tmp_path / "dump.json"
    done = CliRunner().invoke(dump, ["--kubeconfig", str(reader), "-A", "--output-file", str(path)])
    assert done.exit_code == 0, done.stderr
    state = load_state(split(path.read_bytes(), str(path)), strict=True, reads=SCHEDULING_READS).state
    for kind, resource, group in (
        ("PersistentVolume", "persistentvolumes", ""),
        ("StorageClass", "storageclasses", "storage.k8s.io"),
        ("CSINode", "csinodes", "storage.k8s.io"),
        ("CSIDriver", "csidrivers", "storage.k8s.io"),
        ("CSIStorageCapacity", "csistoragecapacities", "storage.k8s.io"),
        ("VolumeAttachment", "volumeattachments", "storage.k8s.io"),
        ("ResourceClaim", "resourceclaims", "resource.k8s.io"),
        ("ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io"),
        ("DeviceClass", "deviceclasses", "resource.k8s.io"),
        ("ResourceSlice", "resourceslices", "resource.k8s.io"),
    ):
        missing = f'missing permission: list {resource} (API group "{group}") cluster-wide'
        assert f"podium: not included: {kind}: {missing}" in done.stderr
        assert state.unread[kind] == missing
    assert "Pod" not in state.unread
