"""Cases for the rules about devices."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, node, pod, stored
from tests.support.audit.cases.case import Case, Table, case
from tests.support.devices import scene
from tests.support.devices.modelled import model, modelled

from podium.api.claims import ClaimingPod
from podium.api.devices import ResourceClaim, ResourceClaimTemplate
from podium.cluster.state import Readable

MISSING, UNSATISFIABLE = "device-class-missing", "claim-unsatisfiable"
UNMATCHED = "device-selector-unmatched"
CLAIM, TEMPLATE = f"ResourceClaim {NS}/c", f"ResourceClaimTemplate {NS}/t"
REQUESTS = "spec.devices.requests"
NODES = stored(node("n0"), node("n1"))
GPUS = stored(*NODES, scene.device_class(), modelled("n0", *"aab"), modelled("n1", *"aa"))


def claim(*held: str, **fields: Any) -> ResourceClaim:
    """Make claim c in the namespace of the audit."""
    made = scene.claim("c", held, **fields)
    made.metadata.namespace = NS
    return made


def template(**fields: Any) -> ResourceClaimTemplate:
    """Make template t of such claims."""
    body = {"metadata": {"name": "t", "namespace": NS, "uid": "t"}, "spec": {"spec": claim(**fields).spec}}
    return msgspec.convert(msgspec.to_builtins(body), ResourceClaimTemplate)


def copied(**fields: Any) -> ResourceClaim:
    """Make a claim that was created for the pod p."""
    return claim(owner="p", **fields)


def using(phase: str = "Pending") -> ClaimingPod:
    """Make a pod that uses template t."""
    entry = {"name": "own", "resourceClaimTemplateName": "t"}
    body = {
        "metadata": {"name": "p", "namespace": NS},
        "spec": {"resourceClaims": [entry]},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, ClaimingPod)


def alternatives(*requirements: dict[str, Any]) -> ResourceClaim:
    """Make claim c with one request that has alternatives."""
    listed = [
        {"name": f"s{at}", "deviceClassName": "gpu", "count": 1, **each}
        for at, each in enumerate(requirements)
    ]
    body = {
        "metadata": {"name": "c", "namespace": NS, "uid": "c"},
        "spec": {"devices": {"requests": [{"name": "any", "firstAvailable": listed}]}},
    }
    return msgspec.convert(body, ResourceClaim)


def both(*requests: dict[str, Any]) -> ResourceClaim:
    """Make claim c with several requests."""
    wanted = [
        {"name": f"r{at}", "exactly": {"deviceClassName": "gpu", "count": 1, **each}}
        for at, each in enumerate(requests)
    ]
    body = {"metadata": {"name": "c", "namespace": NS, "uid": "c"}, "spec": {"devices": {"requests": wanted}}}
    return msgspec.convert(body, ResourceClaim)


def of_cluster(name: str, objects: list[Readable], *found: str | tuple[str, str, str]) -> Case:
    """Make a case whose objects a server stores."""
    return case(name, stored(*objects), *found)


CASES = Table()
CASES.add(
    MISSING,
    (CLAIM, f"{REQUESTS}[0].exactly.deviceClassName"),
    of_cluster("a claim", [claim(requested="tpu"), scene.device_class()], "DeviceClass tpu does not exist."),
    of_cluster(
        "one alternative",
        [alternatives({}, {"deviceClassName": "tpu"}), scene.device_class()],
        (CLAIM, f"{REQUESTS}[0].firstAvailable[1].deviceClassName", "DeviceClass tpu does not exist."),
    ),
    of_cluster(
        "a template, and not its copy",
        [template(requested="tpu"), copied(requested="tpu")],
        (TEMPLATE, "spec.spec.devices.requests[0].exactly.deviceClassName", "DeviceClass tpu does"),
    ),
    of_cluster(
        "a copy of an older template",
        [template(), scene.device_class(), copied(requested="tpu")],
        "DeviceClass tpu does not exist.",
    ),
    of_cluster("an existing class", [claim(), scene.device_class()]),
    of_cluster("a claim with devices", [claim("n0/gpu-0", requested="tpu")]),
    of_cluster("a claim that is being deleted", [claim(requested="tpu", terminating=True)]),
)
CASES.add(
    UNSATISFIABLE,
    (CLAIM, REQUESTS),
    of_cluster(
        "too many devices",
        [*GPUS, claim(count=4)],
        "request gpus needs 4 matching devices on one node, and the most that a node has is 3 (5 pub",
    ),
    of_cluster(
        "a model that no node has",
        [*GPUS, claim(selectors=model('== "z"'))],
        "request gpus needs 1 matching device on one node, and no node has any (5",
    ),
    of_cluster(
        "a selector that fails",
        [*GPUS, claim(selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])],
        "and no node has any",
    ),
    of_cluster("no devices", [*NODES, scene.device_class(), claim()], "no device is published."),
    of_cluster(
        "two requests that different nodes have",
        [
            *(*NODES, scene.device_class(), modelled("n0", "a"), modelled("n1", "b")),
            both({"selectors": model('== "a"')}, {"selectors": model('== "b"')}),
        ],
        "each request finds devices on a node, but no node has devices for all",
    ),
    of_cluster(
        "no alternative",
        [*GPUS, alternatives({"count": 9}, {"count": 8, "selectors": model('== "z"')})],
        "request any needs 8 matching devices on one node, and the most that a node has is 3",
    ),
    of_cluster(
        "a capacity that no device has",
        [
            *(*NODES, scene.device_class(), modelled("n0", "a", capacity={"gb": {"value": "4"}})),
            claim(capacity={"requests": {"gb": "8"}}),
        ],
        "and no node has any",
    ),
    of_cluster(
        "devices of a node that does not exist",
        [*NODES, scene.device_class(), modelled("gone", "a"), claim()],
        "and no node has any (1 published)",
    ),
    of_cluster(
        "a used template",
        [*GPUS, template(count=4), copied(count=4), using()],
        (TEMPLATE, "spec.spec.devices.requests", "needs 4 matching devices"),
    ),
    of_cluster("an unused template", [*GPUS, template(count=4)]),
    of_cluster("a template of a finished pod", [*GPUS, template(count=4), using("Succeeded")]),
    of_cluster("devices in use", [*GPUS, claim(count=3)]),
    of_cluster("a claim with devices, which are gone", [*GPUS, claim("n9/gpu-0", count=9)]),
    of_cluster("a missing class", [*GPUS, claim(requested="tpu")]),
    of_cluster("no nodes", [scene.device_class(), modelled("n0", "a"), claim(count=2)]),
    of_cluster("one good alternative", [*GPUS, alternatives({"count": 9}, {"count": 3})]),
    of_cluster("devices for all nodes", [*NODES, scene.device_class(), modelled("any", "a"), claim()]),
    of_cluster("all devices", [*GPUS, claim(allocationMode="All", count=None, selectors=model('== "b"'))]),
    of_cluster(
        "a tainted device",
        [
            *(*NODES, scene.device_class()),
            modelled("n0", "a", taints=[{"key": "k", "effect": "NoSchedule"}]),
            claim(),
        ],
    ),
)
CASES.add(
    UNMATCHED,
    ("DeviceClass b", "spec.selectors[0].cel.expression"),
    of_cluster(
        "a class",
        [*GPUS, scene.device_class("b", 'device.driver == "gpu.acme.com"')],
        "it matches none of 5 published devices.",
    ),
    of_cluster(
        "a class that fails",
        [*GPUS, scene.device_class("b", "device.attributes['x'].y == 1")],
        "fails on each of 5 published devices: no such key",
    ),
    of_cluster(
        "a class that does not compile",
        [*GPUS, scene.device_class("b", "devices.driver == 'x'")],
        "it does not compile: ",
    ),
    of_cluster(
        "a request",
        [*GPUS, claim(selectors=[*model('== "a"'), *model('== "z"')])],
        (
            CLAIM,
            f"{REQUESTS}[0].exactly.selectors[1].cel.expression",
            "it matches none of 5 devices of class gpu.",
        ),
    ),
    of_cluster(
        "an alternative of a template",
        [*GPUS, template(selectors=model('== "z"')), copied(selectors=model('== "z"'))],
        (TEMPLATE, "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression", "matches none of 5"),
    ),
    of_cluster("selectors that match", [*GPUS, claim(selectors=model('== "b"'))]),
    of_cluster("no published device", [*NODES, scene.device_class(expression="false")]),
    of_cluster(
        "a class without devices",
        [
            *(*NODES, modelled("n0", "a"), scene.device_class("none", "false")),
            claim(requested="none", selectors=model('== "z"')),
        ],
        ("DeviceClass none", "spec.selectors[0].cel.expression", "it matches none of 1 published device."),
    ),
)
# NVIDIA/k8s-dra-driver-gpu: its classes come from a Helm chart, and its folder has a sample Node with a UID.
_CLAIM, _TEMPLATE = claim(requested="tpu"), template(requested="tpu")
_CLAIM.metadata.uid = _TEMPLATE.metadata.uid = None
CASES.add(
    MISSING,
    (CLAIM, f"{REQUESTS}[0].exactly.deviceClassName"),
    case("manifests beside a Node of a server", [_CLAIM, _TEMPLATE, *NODES, scene.device_class()]),
    case(
        "manifests beside a class of a server", [_CLAIM, _TEMPLATE, *stored(scene.device_class()), pod("a")]
    ),
    case("a stored claim beside classes of manifests", [claim(requested="tpu"), scene.device_class()]),
    case(
        "a claim of a manifest beside a dump",
        [_CLAIM, *stored(scene.device_class(), pod("a"), pod("b"))],
        "DeviceClass tpu does not exist.",
    ),
)
CASES.add(
    UNSATISFIABLE,
    (CLAIM, REQUESTS),
    case("slices of a sample", [*NODES, *stored(scene.device_class(), claim(count=4)), modelled("n0", "a")]),
    case(
        "nodes of a sample", [node("n0"), *stored(scene.device_class(), claim(count=4), modelled("n0", "a"))]
    ),
)
CASES.add(
    UNMATCHED,
    ("DeviceClass b", "spec.selectors[0].cel.expression"),
    case("slices of a sample", [*stored(scene.device_class("b", "false")), modelled("n0", "a")]),
)
