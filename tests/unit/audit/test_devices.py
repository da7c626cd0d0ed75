"""The allocator refuses a claim that the audit calls unsatisfiable on every node of the empty cluster."""

import itertools
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.allocation.asking import records
from tests.support.allocation.clusters import cluster, countable
from tests.support.audit.builders import NS, findings, node, stored
from tests.support.audit.builders import cluster as manifests
from tests.support.devices.modelled import model, modelled
from tests.support.devices.offers import NODES, ZONES
from tests.support.devices.scene import claim, device_class

from kubecel import CompiledSelector, UnansweredSelectorError, compile_selector, evaluate_devices, process
from kubecel.selector import Evaluations
from podium.api.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from podium.api.reads import Kind
from podium.audit.devices import PublishedDevices
from podium.cluster.state import ClusterState, Readable
from podium.planner.deadline import NEVER
from podium.planner.plugins.devices.allocator import Allocator
from podium.planner.plugins.devices.gates import AllocationError, default_gates
from podium.planner.plugins.devices.usage import DeviceUsage

RULES = ("claim-unsatisfiable", "device-class-missing", "device-selector-unmatched")
DEVICE_KINDS = (Kind.RESOURCE_CLAIM, Kind.DEVICE_CLASS, Kind.RESOURCE_SLICE)
LABELS = {name: {"zone": zone} for name, zone in ZONES.items()}
CASES = st.integers(0, 2**32).map(lambda seed: (cluster if seed % 2 else countable)(Random(seed)))
MINORS = st.sampled_from([36, 37])


def dump(*objects: Readable) -> ClusterState:
    """Put objects as a server stores them into one State."""
    return manifests(*stored(*objects))


class Empty:
    """A case as a cluster without devices in use, and the allocator's answers for it."""

    def __init__(self, case: dict[str, Any], minor: int) -> None:
        self.minor = minor
        self.slices = records(ResourceSlice, case["slices"])
        self.classes = records(DeviceClass, case["classes"])
        self.claims = records(ResourceClaim, case["claims"])
        for number, each in enumerate(self.slices):
            each.metadata.name = f"{each.metadata.name}-{number}"
        for wanted in self.claims:
            wanted.metadata.namespace = NS

    @property
    def state(self) -> ClusterState:
        nodes = [node(name) for name in NODES]
        for each in nodes:
            each.metadata.labels = LABELS[each.metadata.name or ""]
        return dump(*nodes, *self.slices, *self.classes, *self.claims)

    def found(self, rule: str) -> set[str]:
        """Return the names of the claims that a rule finds."""
        made = findings(rule, self.state, f"1.{self.minor}")
        return {each.object.name for each in made if each.object.kind == "ResourceClaim"}

    def allocates(self, wanted: ResourceClaim) -> bool:
        """Return whether the allocator finds devices for a claim on any node."""

        def select(expression: str, driver: str, device: Device) -> bool:
            return compile_selector(expression, self.minor).selects(driver, device)

        allocator = Allocator(self.slices, self.classes, select, default_gates(self.minor))
        demand = allocator.demand([wanted])
        for name in NODES:
            try:
                if allocator.allocate(name, LABELS[name], demand, DeviceUsage(), NEVER) is not None:
                    return True
            except AllocationError:
                continue
        return False


@settings(max_examples=400)
@given(CASES, MINORS)
def test_no_allocator_satisfies_a_claim_that_is_reported(case: dict[str, Any], minor: int) -> None:
    empty = Empty(case, minor)
    reported = empty.found("claim-unsatisfiable") | empty.found("device-class-missing")
    for each in empty.claims:
        if each.metadata.name in reported:
            assert not empty.allocates(each)


@settings(max_examples=300)
@given(CASES, MINORS)
def test_a_selector_that_is_reported_selects_no_device(case: dict[str, Any], minor: int) -> None:
    empty = Empty(case, minor)
    for each in findings("device-selector-unmatched", empty.state, f"1.{minor}"):
        if each.object.kind != "DeviceClass":
            continue
        (found,) = [one for one in empty.classes if one.metadata.name == each.object.name]
        number = int(each.field.partition("[")[2].partition("]")[0])
        selector = (found.spec.selectors or [])[number].cel
        assert selector is not None
        compiled = compile_selector(selector.expression, minor)
        assert not any(_selects(compiled, part.spec.driver, device) for part, device in _devices(empty))


def _devices(empty: Empty) -> list[tuple[ResourceSlice, Device]]:
    return [(part, device) for part in empty.slices for device in part.spec.devices or ()]


def _selects(compiled: CompiledSelector, driver: str, device: Device) -> bool:
    try:
        return compiled.selects(driver, device)
    except Exception:  # noqa: BLE001 - a selector that fails selects nothing
        return False


def test_counting_finds_each_claim_that_needs_only_numbers() -> None:
    """For one request without constraints the check is exact."""
    reported, refused = 0, 0
    for seed in range(300):
        empty = Empty(countable(Random(seed)), 37)
        found = empty.found("claim-unsatisfiable")
        for each in empty.claims:
            simple = not each.spec.devices.constraints and len(each.spec.devices.requests or ()) == 1
            if simple and not empty.allocates(each):
                refused += 1
                reported += each.metadata.name in found
    assert reported == refused > 10


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kinds", list(itertools.combinations(DEVICE_KINDS, 2)), ids=str)
def test_kinds_that_were_not_read_give_no_finding(rule: str, kinds: tuple[Kind, Kind]) -> None:
    """Two kinds are missing in dumps of older versions, and in lists of kubectl."""
    broken = claim("c", count=9, selectors=model('== "z"'))
    broken.metadata.namespace = NS
    state = dump(node("n0"), broken, device_class(expression="false"), modelled("n0", "a"))
    state.unread = dict.fromkeys(kinds, "not in the input")
    assert findings(rule, state) == []


def test_manifests_without_a_server_give_no_finding() -> None:
    """A folder may hold one class, and a claim that names another class of the cluster."""
    wanted = msgspec.structs.replace(claim("c", requested="tpu"))
    wanted.metadata.uid = None
    assert findings("device-class-missing", manifests(wanted, device_class())) == []


@pytest.mark.parametrize(
    "limits", [{"effort": 0}, {"compared": 0}, {"effort": 100}, {"compared": 3}], ids=str
)
def test_a_limit_ends_the_check_without_a_finding(limits: dict[str, int]) -> None:
    """Whatever was not evaluated counts as a match."""
    wanted = claim("c", count=2, selectors=model('== "z"'))
    slices = [modelled(f"n{at}", *"aaaa") for at in range(100)]
    state = dump(*(node(f"n{at}") for at in range(100)), wanted, device_class(), *slices)
    published = PublishedDevices(state, 37, **limits)
    (request,) = wanted.spec.devices.requests or []
    assert request.exactly is not None
    assert published.lack([request]) is None
    assert not list(published.request_flaws(request.exactly))


def test_costly_selectors_are_evaluated_on_few_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, calls = CompiledSelector.evaluate, []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return evaluate(*args)

    monkeypatch.setattr(CompiledSelector, "evaluate", counted)
    monkeypatch.setattr(process, "evaluate", evaluate_devices)
    text = "x" * 1000
    costly = f'"{text}".split("").exists(c, "{text}".contains(c + "y"))'
    slices = [modelled(f"n{at}", *("a" * 10)) for at in range(100)]
    state = dump(node("n0"), device_class(expression=costly), *slices)
    published = PublishedDevices(state, 37, effort=200_000)
    assert not list(published.class_flaws("gpu"))
    assert 0 < len(calls) < 30


def test_a_selector_without_a_result_is_named_and_counts_as_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another scheduler may evaluate it, so the claim is not reported as unsatisfiable."""
    selectors = model('== "slow"')

    def evaluate(expression: str, *rest: Any) -> Evaluations:
        if "slow" in expression:
            raise UnansweredSelectorError("the evaluation takes more than 0.5 s", 500_000)
        return evaluate_devices(expression, *rest)

    monkeypatch.setattr(process, "evaluate", evaluate)
    state = dump(node("n0"), claim("c", selectors=selectors), device_class(), modelled("n0", "a"))
    assert findings("claim-unsatisfiable", state) == []
    (finding,) = findings("device-selector-unmatched", state)
    assert (finding.message, finding.fix) == (
        "the evaluation takes more than 0.5 s.",
        "simplify the selector",
    )


@pytest.mark.parametrize("rule", ["claim-unsatisfiable", "device-selector-unmatched"])
def test_the_selector_that_left_no_effort_for_others_is_named(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = partial(PublishedDevices, effort=50_000)
    monkeypatch.setattr("podium.audit.devices.PublishedDevices", limited)
    costly = [*model('== "a"'), {"cel": {"expression": "lists.range(30000).sum() > 0"}}]
    slices = [modelled("n0", *"aaaaaaaa")]
    state = dump(node("n0"), device_class(), claim("c", selectors=costly), *slices)
    (found,) = findings(rule, state)
    assert found.object.name == "c"
    assert found.field == "spec.devices.requests[0].exactly.selectors[1].cel.expression"
    assert found.message.startswith("it takes too long to evaluate")
