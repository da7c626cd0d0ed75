"""Cases for the rules about devices."""

from typing import Any

import msgspec
from tests.support.audit.builders import NS, node, pod, stored
from tests.support.audit.cases.case import Case
from tests.support.devices import scene
from tests.support.devices.modelled import model, modelled

from podium.api.claims import ClaimingPod
from podium.api.devices import ResourceClaim, ResourceClaimTemplate

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
    body = {
        "metadata": {"name": "c", "namespace": NS, "uid": "c"},
        "spec": {"devices": {"requests": wanted}},
    }
    return msgspec.convert(body, ResourceClaim)


_OF_CLUSTER = [
    Case(
        "a claim",
        MISSING,
        [claim(requested="tpu"), scene.device_class()],
        [(CLAIM, f"{REQUESTS}[0].exactly.deviceClassName", "DeviceClass tpu does not exist.")],
    ),
    Case(
        "one alternative",
        MISSING,
        [alternatives({}, {"deviceClassName": "tpu"}), scene.device_class()],
        [(CLAIM, f"{REQUESTS}[0].firstAvailable[1].deviceClassName", "DeviceClass tpu does not exist.")],
    ),
    Case(
        "a template, and not its copy",
        MISSING,
        [template(requested="tpu"), copied(requested="tpu")],
        [(TEMPLATE, "spec.spec.devices.requests[0].exactly.deviceClassName", "DeviceClass tpu does")],
    ),
    Case(
        "a copy of an older template",
        MISSING,
        [template(), scene.device_class(), copied(requested="tpu")],
        [(CLAIM, f"{REQUESTS}[0].exactly.deviceClassName", "DeviceClass tpu does not exist.")],
    ),
    Case("an existing class", MISSING, [claim(), scene.device_class()]),
    Case("a claim with devices", MISSING, [claim("n0/gpu-0", requested="tpu")]),
    Case("a claim that is being deleted", MISSING, [claim(requested="tpu", terminating=True)]),
    Case(
        "too many devices",
        UNSATISFIABLE,
        [*GPUS, claim(count=4)],
        [
            (
                CLAIM,
                REQUESTS,
                "request gpus needs 4 matching devices on one node, and the most that a node has is 3 (5 pub",
            )
        ],
    ),
    Case(
        "a model that no node has",
        UNSATISFIABLE,
        [*GPUS, claim(selectors=model('== "z"'))],
        [(CLAIM, REQUESTS, "request gpus needs 1 matching device on one node, and no node has any (5")],
    ),
    Case(
        "a selector that fails",
        UNSATISFIABLE,
        [*GPUS, claim(selectors=[{"cel": {"expression": "device.attributes['x'].y == 1"}}])],
        [(CLAIM, REQUESTS, "and no node has any")],
    ),
    Case(
        "no devices",
        UNSATISFIABLE,
        [*NODES, scene.device_class(), claim()],
        [(CLAIM, REQUESTS, "no device is published.")],
    ),
    Case(
        "two requests that different nodes have",
        UNSATISFIABLE,
        [
            *(*NODES, scene.device_class(), modelled("n0", "a"), modelled("n1", "b")),
            both({"selectors": model('== "a"')}, {"selectors": model('== "b"')}),
        ],
        [(CLAIM, REQUESTS, "each request finds devices on a node, but no node has devices for all")],
    ),
    Case(
        "no alternative",
        UNSATISFIABLE,
        [*GPUS, alternatives({"count": 9}, {"count": 8, "selectors": model('== "z"')})],
        [
            (
                CLAIM,
                REQUESTS,
                "request any needs 8 matching devices on one node, and the most that a node has is 3",
            )
        ],
    ),
    Case(
        "a capacity that no device has",
        UNSATISFIABLE,
        [
            *(*NODES, scene.device_class(), modelled("n0", "a", capacity={"gb": {"value": "4"}})),
            claim(capacity={"requests": {"gb": "8"}}),
        ],
        [(CLAIM, REQUESTS, "and no node has any")],
    ),
    Case(
        "devices of a node that does not exist",
        UNSATISFIABLE,
        [*NODES, scene.device_class(), modelled("gone", "a"), claim()],
        [(CLAIM, REQUESTS, "and no node has any (1 published)")],
    ),
    Case(
        "a used template",
        UNSATISFIABLE,
        [*GPUS, template(count=4), copied(count=4), using()],
        [(TEMPLATE, "spec.spec.devices.requests", "needs 4 matching devices")],
    ),
    Case("an unused template", UNSATISFIABLE, [*GPUS, template(count=4)]),
    Case("a template of a finished pod", UNSATISFIABLE, [*GPUS, template(count=4), using("Succeeded")]),
    Case("devices in use", UNSATISFIABLE, [*GPUS, claim(count=3)]),
    Case("a claim with devices, which are gone", UNSATISFIABLE, [*GPUS, claim("n9/gpu-0", count=9)]),
    Case("a missing class", UNSATISFIABLE, [*GPUS, claim(requested="tpu")]),
    Case("no nodes", UNSATISFIABLE, [scene.device_class(), modelled("n0", "a"), claim(count=2)]),
    Case("one good alternative", UNSATISFIABLE, [*GPUS, alternatives({"count": 9}, {"count": 3})]),
    Case(
        "devices for all nodes", UNSATISFIABLE, [*NODES, scene.device_class(), modelled("any", "a"), claim()]
    ),
    Case(
        "all devices",
        UNSATISFIABLE,
        [*GPUS, claim(allocationMode="All", count=None, selectors=model('== "b"'))],
    ),
    Case(
        "a tainted device",
        UNSATISFIABLE,
        [
            *(*NODES, scene.device_class()),
            modelled("n0", "a", taints=[{"key": "k", "effect": "NoSchedule"}]),
            claim(),
        ],
    ),
    Case(
        "a class",
        UNMATCHED,
        [*GPUS, scene.device_class("b", 'device.driver == "gpu.acme.com"')],
        [
            (
                "DeviceClass b",
                "spec.selectors[0].cel.expression",
                "it matches none of 5 published devices.",
            )
        ],
    ),
    Case(
        "a class that fails",
        UNMATCHED,
        [*GPUS, scene.device_class("b", "device.attributes['x'].y == 1")],
        [
            (
                "DeviceClass b",
                "spec.selectors[0].cel.expression",
                "fails on each of 5 published devices: no such key",
            )
        ],
    ),
    Case(
        "a class that does not compile",
        UNMATCHED,
        [*GPUS, scene.device_class("b", "devices.driver == 'x'")],
        [("DeviceClass b", "spec.selectors[0].cel.expression", "it does not compile: ")],
    ),
    Case(
        "a request",
        UNMATCHED,
        [*GPUS, claim(selectors=[*model('== "a"'), *model('== "z"')])],
        [
            (
                CLAIM,
                f"{REQUESTS}[0].exactly.selectors[1].cel.expression",
                "it matches none of 5 devices of class gpu.",
            )
        ],
    ),
    Case(
        "an alternative of a template",
        UNMATCHED,
        [*GPUS, template(selectors=model('== "z"')), copied(selectors=model('== "z"'))],
        [
            (
                TEMPLATE,
                "spec.spec.devices.requests[0].exactly.selectors[0].cel.expression",
                "matches none of 5",
            )
        ],
    ),
    Case("selectors that match", UNMATCHED, [*GPUS, claim(selectors=model('== "b"'))]),
    Case("no published device", UNMATCHED, [*NODES, scene.device_class(expression="false")]),
    Case(
        "a class without devices",
        UNMATCHED,
        [
            *(*NODES, modelled("n0", "a"), scene.device_class("none", "false")),
            claim(requested="none", selectors=model('== "z"')),
        ],
        [("DeviceClass none", "spec.selectors[0].cel.expression", "it matches none of 1 published device.")],
    ),
]
# NVIDIA/k8s-dra-driver-gpu: its classes come from a Helm chart, and its folder has a sample Node with a UID.
_CLAIM, _TEMPLATE = claim(requested="tpu"), template(requested="tpu")
_CLAIM.metadata.uid = _TEMPLATE.metadata.uid = None
CASES = [
    *(each._replace(objects=stored(*each.objects)) for each in _OF_CLUSTER),
    Case("manifests beside a Node of a server", MISSING, [_CLAIM, _TEMPLATE, *NODES, scene.device_class()]),
    Case(
        "manifests beside a class of a server",
        MISSING,
        [_CLAIM, _TEMPLATE, *stored(scene.device_class()), pod("a")],
    ),
    Case(
        "a stored claim beside classes of manifests", MISSING, [claim(requested="tpu"), scene.device_class()]
    ),
    Case(
        "a claim of a manifest beside a dump",
        MISSING,
        [_CLAIM, *stored(scene.device_class(), pod("a"), pod("b"))],
        [(CLAIM, f"{REQUESTS}[0].exactly.deviceClassName", "DeviceClass tpu does not exist.")],
    ),
    Case(
        "slices of a sample",
        UNSATISFIABLE,
        [*NODES, *stored(scene.device_class(), claim(count=4)), modelled("n0", "a")],
    ),
    Case(
        "slices of a sample",
        UNMATCHED,
        [*stored(scene.device_class("b", "false")), modelled("n0", "a")],
    ),
    Case(
        "nodes of a sample",
        UNSATISFIABLE,
        [node("n0"), *stored(scene.device_class(), claim(count=4), modelled("n0", "a"))],
    ),
]
