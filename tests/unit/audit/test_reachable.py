"""A gang is reported as pinned only if no placement on the nodes that reach its volumes exists."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import why as documents
from tests.support.audit.builders import cluster, pod_group, report
from tests.support.audit.claims import ZONE, claim, claiming, volume, zoned
from tests.support.calling import calling

from podium.api.core import Node
from podium.audit.capacity import ClusterCapacity, ReachableNodes

ZONES = "abc"
# By member: its cpus, and the zones of its volume (None: it has none).
_members = st.lists(
    st.tuples(st.integers(1, 4), st.none() | st.sets(st.sampled_from(ZONES), min_size=1)),
    min_size=1,
    max_size=5,
)
_nodes = st.lists(st.tuples(st.sampled_from(ZONES), st.integers(1, 6)), min_size=1, max_size=3)


def objects(members: list[Any], nodes: list[Any]) -> tuple[list[Node], list[Any], list[Any]]:
    """Make nodes, pods and their claims and volumes."""
    made = [zoned(f"n{at}", zone, str(cpu)) for at, (zone, cpu) in enumerate(nodes)]
    pods, storage = [], list[Any]()
    for at, (cpu, zones) in enumerate(members):
        claims = () if zones is None else (f"c{at}",)
        pods.append(claiming(f"p{at}", *claims, cpu=str(cpu)))
        if zones is not None:
            storage += [claim(f"c{at}", f"v{at}"), volume(f"v{at}", ZONE, *sorted(zones))]
    return made, pods, storage


def can_be_placed(chosen: tuple[Any, ...], room: list[int], zones: list[str]) -> bool:
    """Return whether all chosen members fit, by trying every placement."""
    if not chosen:
        return True
    (cpu, allowed), *rest = chosen
    for at, zone in enumerate(zones):
        if cpu <= room[at] and (allowed is None or zone in allowed):
            left = [free - cpu if each == at else free for each, free in enumerate(room)]
            if can_be_placed(tuple(rest), left, zones):
                return True
    return False


@given(_members, _nodes, st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_a_gang_with_a_placement_is_never_reported(members: list[Any], nodes: list[Any], least: int) -> None:
    made, pods, storage = objects(members, nodes)
    capacity = ClusterCapacity(made)
    state = cluster(*made, *pods, *storage)
    if ReachableNodes(state, capacity, 37).shortfall(pods, least) is not None:
        room, zones = [cpu for _, cpu in nodes], [zone for zone, _ in nodes]
        assert len(pods) >= least
        assert not any(can_be_placed(chosen, room, zones) for chosen in combinations(members, least))


@given(_members, _nodes, st.integers(1, 5), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_input_does_not_matter(
    members: list[Any], nodes: list[Any], least: int, rng: Any
) -> None:
    made, pods, storage = objects(members, nodes)
    state = cluster(*made, *pods, *storage)
    first = ReachableNodes(state, ClusterCapacity(made), 37).shortfall(pods, least)
    for each in (made, pods, storage):
        rng.shuffle(each)
    state = cluster(*storage, *pods, *made)
    assert ReachableNodes(state, ClusterCapacity(made), 37).shortfall(pods, least) == first


@pytest.mark.parametrize(
    ("mode", "count", "minor", "podium", "blocked"),
    [
        pytest.param("ReadWriteOncePod", 2, "1.37", False, 1, id="never two of two"),
        pytest.param("ReadWriteOncePod", 2, "1.36", False, 0, id="1.36 places both"),
        pytest.param("ReadWriteOncePod", 2, "1.36", True, 1, id="Podium refuses them"),
        pytest.param("ReadWriteOncePod", 3, "1.37", False, 0, id="two of three without one"),
        pytest.param("ReadWriteOncePod", 1, "1.37", False, 0, id="a member is missing"),
        pytest.param("ReadWriteMany", 2, "1.37", False, 0, id="several pods may mount it"),
    ],
)
def test_a_gang_that_its_claims_keep_from_min_count_counts_as_blocked(
    mode: str, count: int, minor: str, podium: bool, blocked: int
) -> None:
    name: dict[str, Any] = {"podium": "train", "group": ""} if podium else {"group": "train"}
    users = [claiming(f"p{at}", *(("c",) if at < 2 else ()), **name) for at in range(count)]
    group = pod_group(min_count=2, podium=podium)
    made = report(group, *users, claim("c", accessModes=[mode]), kubernetes=minor)
    assert made.summary.blocked.groups == blocked


@pytest.mark.parametrize("command", ["audit", "preflight"])
def test_commands_read_claims_and_volumes(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both findings are of each minor, so an upgrade brings none."""
    podium = calling(command, monkeypatch, tmp_path)
    shared: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}
    expression = {"key": ZONE, "operator": "In", "values": ["b"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]}
    file = documents.file(
        [
            documents.node(cpu="4"),
            documents.group("ring", native=True),
            *(documents.pod(f"p{at}", group="ring", native=True, priority=5, **shared) for at in range(2)),
            documents.named("v1", "PersistentVolumeClaim", "c", metadata=bound, spec=spec),
            documents.named("v1", "PersistentVolume", "v", None, spec={"nodeAffinity": affinity}),
        ]
    )
    done = podium("-f", file, "-o", "json", *(("--to", "1.38") if command == "preflight" else ()))
    assert done.code == (3 if command == "audit" else 0), done.stderr
    kinds = {each["kind"] for each in (done.json.get("summary") or done.json)["notChecked"]}
    assert not kinds & {"PersistentVolumeClaim", "PersistentVolume"}
    if command == "audit":
        errors = [each["rule"] for each in done.json["findings"] if each["severity"] == "error"]
        assert errors == ["gang-pinned", "gang-shares-exclusive-claim"]
        assert done.json["summary"]["blocked"]["groups"] == 1


def test_a_pinned_gang_counts_as_blocked() -> None:
    pods = [claiming(f"p{at}", "c", cpu="3") for at in range(2)]
    made = report(zoned("n", "a"), pod_group(min_count=2), *pods, claim("c", "v"), volume("v", ZONE, "b"))
    assert (made.summary.blocked.groups, made.summary.blocked.pods) == (1, 2)
