"""Extended resources from device classes: upstream's cases, and which resources of a node need classes."""

from typing import Any, NamedTuple

import msgspec
import pytest

from podium.api.core import Pod
from podium.api.devices import DeviceClass, DeviceClassSpec
from podium.api.meta import ObjectMeta
from podium.planner.plugins.devices.claims import (
    classes_by_resource,
    extended_claim,
    extended_claim_name,
    extended_needs,
)

_GPU, _INIT, _SECOND = "ext.com/gpu", "ext.com/gpuinit", "ext.com/gpu1"
_IMPLICIT = "deviceclass.resource.kubernetes.io/classInit"


def _class(name: str, resource: str | None, created: str = "2026-01-01T00:00:00Z") -> DeviceClass:
    spec = DeviceClassSpec(extendedResourceName=resource)
    return DeviceClass(metadata=ObjectMeta(name=name, creationTimestamp=created), spec=spec)


_CLASSES = classes_by_resource([_class("class", _GPU), _class("class1", _SECOND), _class("classInit", _INIT)])


def _container(name: str, requests: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, **more}


def _pod(*containers: dict[str, str], init: tuple[dict[str, Any], ...] = ()) -> Pod:
    spec = {
        "containers": [_container(f"con{at}", each) for at, each in enumerate(containers)],
        "initContainers": list(init),
    }
    metadata = {"name": "my-pod", "namespace": "team", "uid": "1234"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


class _Case(NamedTuple):
    pod: Pod
    requests: list[tuple[str, str, int]]
    mappings: list[tuple[str, str, str]]
    resources: tuple[str, ...] = (_GPU, _INIT)


_CASES = {
    "one container, two requests": _Case(
        _pod({_GPU: "1", _SECOND: "2"}),
        [("container-0-request-0", "class", 1), ("container-0-request-1", "class1", 2)],
        [("con0", _GPU, "container-0-request-0"), ("con0", _SECOND, "container-0-request-1")],
        (_GPU, _SECOND),
    ),
    "two containers, two requests": _Case(
        _pod({_GPU: "1"}, {_SECOND: "2"}),
        [("container-0-request-0", "class", 1), ("container-1-request-0", "class1", 2)],
        [("con0", _GPU, "container-0-request-0"), ("con1", _SECOND, "container-1-request-0")],
        (_GPU, _SECOND),
    ),
    "one container, one explicit and one implicit request": _Case(
        _pod(init=(_container("init-con0", {_INIT: "1", _IMPLICIT: "2"}),)),
        [("container-0-request-0", "classInit", 2), ("container-0-request-1", "classInit", 1)],
        [("init-con0", _IMPLICIT, "container-0-request-0"), ("init-con0", _INIT, "container-0-request-1")],
        (_INIT, _IMPLICIT),
    ),
    "one init container, one regular container": _Case(
        _pod({_GPU: "1"}, init=(_container("init-con0", {_INIT: "2"}),)),
        [("container-0-request-0", "classInit", 2), ("container-1-request-0", "class", 1)],
        [("con0", _GPU, "container-1-request-0"), ("init-con0", _INIT, "container-0-request-0")],
    ),
    "two init containers, one regular container": _Case(
        _pod(
            {_GPU: "1"}, init=(_container("init-con0", {_INIT: "1"}), _container("init-con1", {_INIT: "2"}))
        ),
        [("container-1-request-0", "classInit", 2), ("container-2-request-0", "class", 1)],
        [
            ("con0", _GPU, "container-2-request-0"),
            ("init-con0", _INIT, "container-1-request-0"),
            ("init-con1", _INIT, "container-1-request-0"),
        ],
    ),
    "three init containers, one sidecar, one regular container": _Case(
        _pod(
            {_GPU: "1"},
            init=(
                _container("init-con0", {_INIT: "1"}),
                _container("sidecar-con1", {_INIT: "1"}, restartPolicy="Always"),
                _container("init-con2", {_INIT: "2"}),
            ),
        ),
        [
            ("container-1-request-0", "classInit", 1),
            ("container-2-request-0", "classInit", 2),
            ("container-3-request-0", "class", 1),
        ],
        [
            ("con0", _GPU, "container-3-request-0"),
            ("sidecar-con1", _INIT, "container-1-request-0"),
            ("init-con0", _INIT, "container-1-request-0"),
            ("init-con2", _INIT, "container-2-request-0"),
        ],
    ),
    "an init container adds to the devices that it reuses": _Case(
        _pod({_GPU: "1"}, init=(_container("init-con0", {"cpu": "1", _GPU: "3"}),)),
        [("container-0-request-1", "class", 2), ("container-1-request-0", "class", 1)],
        [
            ("con0", _GPU, "container-1-request-0"),
            ("init-con0", _GPU, "container-1-request-0"),
            ("init-con0", _GPU, "container-0-request-1"),
        ],
        (_GPU,),
    ),
}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_a_pod_gets_a_claim_with_a_request_for_each_container(case: _Case) -> None:
    claim, mappings = extended_claim(case.pod, extended_needs(case.pod, case.resources, _CLASSES))
    requests = [
        (each.name, each.exactly.deviceClassName, each.exactly.count)
        for each in claim.spec.devices.requests or ()
        if each.exactly is not None
    ]
    assert requests == case.requests
    assert [tuple(each) for each in mappings] == case.mappings
    assert claim.metadata.name == extended_claim_name(case.pod)


def test_the_claim_belongs_to_its_pod() -> None:
    pod = _pod({_GPU: "1"})
    metadata = extended_claim(pod, extended_needs(pod, [_GPU], _CLASSES)).claim.metadata
    owner = metadata.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "my-pod", "1234")
    assert metadata.generateName == "my-pod-extended-resources-"
    assert metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}


def test_the_newest_class_provides_a_resource_and_then_the_first_by_name() -> None:
    old, late = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    found = classes_by_resource(
        [_class("a", "x.io/y", old), _class("c", "x.io/y", late), _class("b", "x.io/y", late)]
    )
    assert found["x.io/y"].metadata.name == "b"
    assert found["deviceclass.resource.kubernetes.io/a"].metadata.name == "a"


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        (_GPU, True),
        (_IMPLICIT, True),
        ("other.io/nic", False),
        ("cpu", False),
        ("requests.x.io/y", False),
        ("kubernetes.io/gpu", False),
    ],
    ids=["explicit", "implicit", "no class", "native", "prefix of quotas", "native domain"],
)
def test_a_class_provides_extended_resources_only(resource: str, found: bool) -> None:
    names = ("cpu", "requests.x.io/y", "kubernetes.io/gpu")
    classes = {**_CLASSES, **dict.fromkeys(names, _class("any", None))}
    needs = extended_needs(_pod({resource: "1"}), [resource], classes)
    assert [each.resource for each in needs] == ([resource] if found else [])


@pytest.mark.parametrize("amount", ["0", "1500m", "-1", "many", "{}"])
def test_an_amount_that_is_no_number_of_devices_needs_none(amount: str) -> None:
    assert extended_needs(_pod({_GPU: amount}), [_GPU], _CLASSES) == ()


@pytest.mark.parametrize("name", ["p", "p" * 30, "p" * 253], ids=["short", "longer", "the longest"])
def test_the_name_of_the_claim_follows_from_the_pod(name: str) -> None:
    def named(uid: str) -> str:
        return extended_claim_name(Pod(metadata=ObjectMeta(name=name, namespace="team", uid=uid)))

    assert named("1") == named("1") != named("2")
    assert named("1").startswith(f"{name}-extended-resources-"[:53])
    assert len(named("1")) <= 63
