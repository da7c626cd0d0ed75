"""A pod that waits for devices names the request and what excludes devices, or the problem of its claim."""

from typing import Any

import pytest
from tests.support.calling import Podium
from tests.support.why import file, group, named, node, pod, podium

from podium.planner.plugins.devices import shortage

__all__ = ["podium"]

API, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
Object = dict[str, Any]


def device_class(name: str = "gpu") -> Object:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return named(API, "DeviceClass", name, None, spec={"selectors": [selector]})


def devices(where: str, *models: str) -> Object:
    """Make the slice of a node with one device of each model."""
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    made = [
        {"name": f"gpu-{at}", "attributes": {"model": {"string": each}}} for at, each in enumerate(models)
    ]
    spec = {"driver": DRIVER, "nodeName": where, "pool": pool, "devices": made}
    return named(API, "ResourceSlice", where, None, spec=spec)


def claim(name: str, count: int = 1, model: str = "", *, of: str = "gpu", **rest: Any) -> Object:
    """Make a claim for devices of a model, or of any."""
    text = f'device.attributes["{DRIVER}"].model == "{model}"'
    exactly = {
        "deviceClassName": of,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": text}}] if model else [],
    }
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    return named(API, "ResourceClaim", name, spec=spec, **rest)


def held(name: str, where: str, *numbers: int, users: int = 1) -> Object:
    """Make a claim that has devices of a node."""
    results = [{"request": "gpus", "driver": DRIVER, "pool": where, "device": f"gpu-{at}"} for at in numbers]
    field = {"key": "metadata.name", "operator": "In", "values": [where]}
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    consumers = [{"resource": "pods", "name": f"u{at}", "uid": f"u{at}"} for at in range(users)]
    return claim(name, len(numbers), status={"allocation": allocation, "reservedFor": consumers})


def claiming(name: str, *claims: str, template: str = "", **fields: Any) -> Object:
    """Make a pod with these claims, or with one that is to be created from a template."""
    entries = [{"name": f"x{at}", "resourceClaimName": each} for at, each in enumerate(claims)]
    if template:
        entries.append({"name": "own", "resourceClaimTemplateName": template})
    return pod(name, resourceClaims=entries, **fields)


LISTS = [
    {"apiVersion": API, "kind": f"{kind}List", "items": []}
    for kind in ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
]
NODES = [node("n1", "8"), node("n2", "8"), device_class(), *LISTS]
TWELVE = [devices("n1", *"aaaaaa"), devices("n2", *"aabbbb")]
EIGHT_USED = [held("h1", "n1", *range(6)), held("h2", "n2", 0, 1)]

WAITS = {
    "devices in use and of another model": (
        [*TWELVE, *EIGHT_USED, claim("c", 2, "a"), claiming("p", "c")],
        (
            "claim a/c, request gpus needs 2 devices: 12 devices, 8 in use, 4 excluded by selector 1 "
            "(on 2 of 2 nodes)"
        ),
    ),
    "too few on each node": (
        [*TWELVE, claim("c", 8), claiming("p", "c")],
        (
            "claim a/c, request gpus needs 8 devices: 12 devices, 12 free, at most 6 on one node "
            "(on 2 of 2 nodes); the nearest is n1: 6 devices, 6 free"
        ),
    ),
    "devices on a node without room": (
        [devices("n1", *"aa"), claim("c"), claiming("p", "c"), pod("full", node="n1", cpu="8")],
        (
            "claim a/c, request gpus needs 1 device: 2 devices, 2 on nodes that refuse the pod "
            "(Insufficient cpu) (on one node)"
        ),
    ),
    "a gang": (
        [
            devices("n1", *"aa"),
            devices("n2", *"ab"),
            *(claim(f"c{at}", 2, "a") for at in range(2)),
            *(claiming(f"p{at}", f"c{at}", group="g", priority=5) for at in range(2)),
            group("g"),
        ],
        (
            "1 of 2 pods find a place, and pod p1 finds none: claim a/c1, request gpus needs 2 devices: "
            "4 devices, 2 in use, 1 excluded by selector 1, 1 free, at most 1 on one node "
            "(on 2 of 2 nodes); the nearest is n2: 2 devices, 1 excluded by selector 1, 1 free"
        ),
    ),
}


SHARING = [devices("n1", "a"), *(claiming(f"p{at}", "c", group="g", cpu="0") for at in range(257))]
CROWDED = {
    "a gang with a pod too many": (
        [*SHARING, claim("c"), group("g", least=257)],
        ["ResourceClaim c: named by 257 pods of g, and takes 256 of them"],
    ),
    "a gang beside other consumers": (
        [*SHARING, held("c", "n1", 0, users=100), group("g", least=200)],
        ["ResourceClaim c: named by 257 pods of g, and takes 156 of them"],
    ),
    "a gang that needs fewer pods": ([*SHARING, claim("c"), group("g", least=256)], []),
}


@pytest.mark.parametrize(("objects", "messages"), CROWDED.values(), ids=CROWDED)
def test_a_claim_with_too_few_places_for_a_gang_is_named(
    podium: Podium, objects: list[Object], messages: list[str]
) -> None:
    done = podium("group", "a/g", "-f", file([*NODES, *objects]), "-o", "json").json
    assert [each["message"] for each in done["waiting"] if each["cause"] == "ClaimUnusable"] == messages
    assert not messages or done["waiting"][0]["message"] == messages[0]


@pytest.mark.parametrize(("objects", "message"), WAITS.values(), ids=WAITS)
def test_a_request_without_devices_is_explained(podium: Podium, objects: list[Object], message: str) -> None:
    kind = "group" if any(each["kind"] == "PodGroup" for each in objects) else "pod"
    target = "a/g" if kind == "group" else "a/p"
    done = podium(kind, target, "-f", file([*NODES, *objects]), "-o", "json").json
    assert [each["message"] for each in done["waiting"] if each["cause"] == "NoDevices"] == [message]
    assert done["prospect"]["outcome"] != "Fits"


def test_the_numbers_are_values_too(podium: Podium) -> None:
    objects = [*NODES, *TWELVE, *EIGHT_USED, claim("c", 2, "a"), claiming("p", "c")]
    done = podium("pod", "a/p", "-f", file(objects), "-o", "json").json
    (found,) = done["devices"]
    wanted = {"claim": "a/c", "request": "gpus", "needed": 2, "nodes": 2, "devices": 12, "free": 0}
    assert {key: found[key] for key in wanted} == wanted
    assert found["excluded"] == [
        {"reason": "in use", "devices": 8},
        {"reason": "excluded by selector 1", "devices": 4},
    ]
    assert [(each["node"], each["devices"]) for each in found["nearest"]] == [("n1", 6), ("n2", 6)]


def test_the_table_has_the_sentence(podium: Podium) -> None:
    objects = [*NODES, *TWELVE, *EIGHT_USED, claim("c", 2, "a"), claiming("p", "c")]
    done = podium("pod", "a/p", "-f", file(objects))
    assert "12 devices, 8 in use, 4 excluded by selector 1" in " ".join(done.stdout.split())


def test_claims_that_are_too_much_to_examine_are_named(
    podium: Podium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortage.DeviceExaminer.__init__, "__kwdefaults__", {"examined": 1, "effort": 0})
    objects = [*NODES, *TWELVE, *EIGHT_USED, claim("c", 2, "a"), claiming("p", "c")]
    done = podium("pod", "a/p", "-f", file(objects), "-o", "json").json
    assert [each["message"] for each in done["waiting"] if each["cause"] == "NoDevices"] == [
        "the devices of 2 nodes were not examined: there is too much to evaluate"
    ]


def test_a_pod_that_fits_has_no_reason(podium: Podium) -> None:
    done = podium(
        "pod", "a/p", "-f", file([*NODES, *TWELVE, claim("c", 2), claiming("p", "c")]), "-o", "json"
    )
    assert (done.json["devices"], done.json["prospect"]["outcome"]) == ([], "Fits")


PROBLEMS = {
    "a claim that does not exist": ([claiming("p", "c")], "ResourceClaim c: not found"),
    "a template that does not exist": (
        [claiming("p", template="t")],
        "ResourceClaimTemplate t: not found",
    ),
    "a claim that is not created yet": (
        [
            claiming("p", template="t"),
            named(API, "ResourceClaimTemplate", "t", spec={"spec": claim("x")["spec"]}),
        ],
        "claim of entry own: not created yet",
    ),
    "a created claim that is gone": (
        [
            claiming(
                "p",
                template="t",
                status={"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own"}]},
            )
        ],
        "ResourceClaim p-own: not found, although it was created",
    ),
    "a claim of another pod": (
        [
            claim("p-own"),
            claiming(
                "p",
                template="t",
                status={"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "p-own"}]},
            ),
        ],
        "ResourceClaim p-own: created for another pod or group",
    ),
    "a claim that is being deleted": (
        [claim("c", metadata={"deletionTimestamp": "2026-11-21T08:10:00Z"}), claiming("p", "c")],
        "ResourceClaim c: being deleted",
    ),
    "a missing class": (
        [claim("c", of="tpu"), claiming("p", "c")],
        "ResourceClaim c: request gpus: device class tpu does not exist",
    ),
    "256 consumers": (
        [devices("n1", "a"), held("c", "n1", 0, users=256), claiming("p", "c")],
        "ResourceClaim c: in use by 256 consumers, the most of a claim",
    ),
    "an entry without a source": (
        [pod("p", resourceClaims=[{"name": "own"}])],
        "entry of spec.resourceClaims own: neither a claim nor a template is named",
    ),
}


@pytest.mark.parametrize(("objects", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_claim_that_stops_its_pod_is_the_first_reason(
    podium: Podium, objects: list[Object], message: str
) -> None:
    done = podium("pod", "a/p", "-f", file([*NODES, *objects]), "-o", "json").json
    first = done["waiting"][0]
    assert (first["cause"], first["message"], bool(first["fix"])) == ("ClaimUnusable", message, True)
    assert done["summary"] == f"Pod a/p waits: {message}."
    assert done["prospect"] is None


def test_an_allocated_claim_names_its_node(podium: Podium) -> None:
    full = pod("full", node="n1", cpu="8", priority=9)
    objects = [*NODES, devices("n1", "a"), held("c", "n1", 0), claiming("p", "c"), full]
    done = podium("pod", "a/p", "-f", file(objects), "-o", "json").json
    message = "ResourceClaim c (node n1): has its devices already, which only these nodes can use"
    assert [each["message"] for each in done["waiting"] if each["cause"] == "ClaimAllocated"] == [message]
    assert done["prospect"]["outcome"] == "DoesNotFit"


def test_the_claims_of_a_group_are_one_reason(podium: Podium) -> None:
    members = [claiming(f"p{at}", f"c{at}", group="g", priority=5) for at in range(20)]
    done = podium("group", "a/g", "-f", file([*NODES, group("g", least=20), *members]), "-o", "json").json
    messages = [each["message"] for each in done["waiting"] if each["cause"] == "ClaimUnusable"]
    assert len(messages) == 1
    assert messages[0].startswith("ResourceClaim c0, c1, c10")
    assert len(messages[0]) < 100


def test_a_gate_comes_before_claims(podium: Podium) -> None:
    gated = claiming("p", "c", schedulingGates=[{"name": "hold"}])
    done = podium("pod", "a/p", "-f", file([*NODES, gated]), "-o", "json").json
    assert [each["cause"] for each in done["waiting"]][:2] == ["Gated", "ClaimUnusable"]


def test_kinds_that_were_not_read_give_no_reason(podium: Podium) -> None:
    objects = [node("n1"), claiming("p", "c", template="t")]
    done = podium("pod", "a/p", "-f", file(objects), "-o", "json").json
    assert {each["cause"] for each in done["waiting"]} == {"ClaimUnusable", "NotTried", "NotRead"}
    assert [each["message"] for each in done["waiting"] if each["cause"] == "ClaimUnusable"] == [
        "claim of entry own: not created yet"
    ]
    assert {"ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"} <= {
        each.partition(":")[0] for each in done["unknown"]
    }
