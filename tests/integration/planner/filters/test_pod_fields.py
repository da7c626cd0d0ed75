"""Every field of a pod's spec is read, irrelevant to its node, or refused by name."""

from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from tests.support.filters import podschema
from tests.support.filters.podschema import SPEC, Schema
from tests.support.servers import Server

from podium.api.claims import Present
from podium.api.schedulable import SchedulableSpec

# Fields that do not affect the node of a pod: the reason, and the fields by definition.
HARMLESS = {
    "the kubelet does it after the pod was bound, and no filter reads it": {
        "PodSpec": """dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC hostPID
            hostname hostnameOverride imagePullSecrets readinessGates restartPolicy securityContext
            setHostnameAsFQDN shareProcessNamespace subdomain""",
        "Container": """args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe
            resizePolicy securityContext startupProbe stdin stdinOnce terminationMessagePath
            terminationMessagePolicy tty workingDir""",
        "ContainerPort": "name",
        "ContainerRestartRule": "exitCodes",
        "PersistentVolumeClaimVolumeSource": "readOnly",
        "VolumeMount": "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr",
    },
    "an identity, which admission checks": {
        "PodSpec": "automountServiceAccountToken serviceAccount serviceAccountName",
    },
    "admission writes what it means into nodeSelector, tolerations and overhead": {
        "PodSpec": "runtimeClassName",
    },
    "no filter reads it: kubernetes.io/os in nodeSelector decides": {"PodSpec": "os"},
    "for evictions through the API, which come after placement": {"PodSpec": "evictionResponders"},
    "only the score ImageLocality reads it, which Podium lacks": {"Container": "image"},
    "kube-scheduler does not compare disks by it": {
        "AWSElasticBlockStoreVolumeSource": "fsType partition readOnly",
        "AzureDiskVolumeSource": "cachingMode diskName fsType readOnly",
        "CinderVolumeSource": "fsType readOnly secretRef",
        "GCEPersistentDiskVolumeSource": "fsType partition",
        "ISCSIVolumeSource": """chapAuthDiscovery chapAuthSession fsType initiatorName iscsiInterface lun
            portals secretRef targetPortal""",
        "PortworxVolumeSource": "fsType readOnly",
        "RBDVolumeSource": "fsType keyring secretRef user",
    },
    "it names an entry of spec.volumes or spec.resourceClaims, which are judged": {
        "Container": "volumeDevices",
        "ResourceRequirements": "claims",
    },
    "for how long a pod stays after NoExecute, not whether it may come": {"Toleration": "tolerationSeconds"},
    "any node can mount it, as far as a filter knows": {
        "Volume": """azureFile cephfs configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo
            glusterfs hostPath image nfs photonPersistentDisk projected quobyte scaleIO secret storageos""",
    },
    "a container for debugging has no resources, and joins a running pod": {
        "EphemeralContainer": """args command env envFrom image imagePullPolicy lifecycle livenessProbe name
            ports readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext
            startupProbe stdin stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy
            tty volumeDevices workingDir""",
    },
}
KNOWN = {
    f"{definition}.{field}"
    for by_definition in HARMLESS.values()
    for definition, fields in by_definition.items()
    for field in fields.split()
}
MINORS = pytest.mark.parametrize("minor", podschema.read())


def structs_of(kind: Any) -> list[type[msgspec.Struct]]:
    """Return the Structs in a field's type: itself, its items, its values."""
    if get_origin(kind) in (Union, UnionType, list, dict):
        return [found for each in get_args(kind) for found in structs_of(each)]
    return [kind] if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else []


def unread(schema: Schema, name: str, read: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the fields of a definition, and of those within it, that its Struct does not have."""
    hints = get_type_hints(read)
    for field, definition in schema[name].items():
        if field not in hints:
            yield f"{name}.{field}"
        elif definition:
            for each in structs_of(hints[field]):
                if each is not Present:
                    yield from unread(schema, definition, each)


@MINORS
def test_every_field_of_a_pod_is_read_or_known_to_decide_nothing(minor: str) -> None:
    """A field of a newer minor fails here until it is assigned to one of the three."""
    assert set(unread(podschema.read()[minor], SPEC, SchedulableSpec)) - KNOWN == set()


def test_every_excused_field_exists_and_is_not_read() -> None:
    found = {each for schema in podschema.read().values() for each in unread(schema, SPEC, SchedulableSpec)}
    assert KNOWN - found == set()


@pytest.mark.server
def test_the_recorded_fields_are_those_of_the_servers(server: Server) -> None:
    """If this fails, run `make record`."""
    found = podschema.described(podschema.definitions_of(server))
    assert found == podschema.read()[server.release.minor]
