"""The volumes that a node can attach, by CSI driver.

The cases of the first table are those of upstream's csi_test.go (TestCSILimits). The pods run on node n.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.filters.builders import (
    NS,
    attachment,
    claim,
    csi_driver,
    csi_node,
    empty_snapshot,
    mounts,
    node,
    pod,
    storage_class,
    volume,
    volume_needs,
)
from tests.support.preemption.scene import group, of, planned, victims
from tests.support.preemption.scene import node as machine
from tests.support.preemption.scene import pod as pod_of

from podium.planner.filters.chain import Chain
from podium.planner.plugins.volumes.attachlimits import AttachLimitsFilter
from podium.planner.plugins.volumes.index import Volumes
from podium.planner.plugins.volumes.needs import Attachment, attachment_of, attachments_of
from podium.planner.plugins.volumes.plugin import VolumesPlugin
from podium.planner.preemption.outcome import Outcome
from podium.planner.semantics import Semantics
from podium.planner.shapes import Shape
from podium.planner.snapshot import Snapshot

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
FULL = AttachLimitsFilter.REASON
Limits = Mapping[str, int | None]


def csi(driver: str, handle: str) -> dict[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def aws(volume_id: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": volume_id}}


def inline(source: Mapping[str, Any]) -> dict[str, Any]:
    return {"volumes": [{"name": "own", **source}]}


# The volumes by name, each with a claim of the name: of EBS, of GCE, old disks of AWS, and of no driver.
VOLUMES: dict[str, dict[str, Any]] = {
    **{f"e{number}": csi(EBS, f"vol-{number}") for number in range(4)},
    **{f"g{number}": csi(GCE, f"disk-{number}") for number in range(2)},
    **{f"t{number}": aws(f"aws://eu-1a/vol-t{number}") for number in range(3)},
    "path": {},
}
OWNED = f"{NS}-p0"
CLAIMS = [
    claim("pending", storageClassName="ebs"),
    claim("old-pending", storageClassName="aws"),
    claim("no-class"),
    claim("no-volume", "gone", storageClassName="ebs"),
    claim("p0-tmp", storageClassName="ebs", owner=OWNED),
]
CLASSES = [
    storage_class("ebs", "WaitForFirstConsumer", EBS),
    storage_class("aws", "WaitForFirstConsumer", "kubernetes.io/aws-ebs"),
]
MOUNTED = mounts("e1", "e2")
Case = tuple[dict[str, Any], Sequence[dict[str, Any]], Limits | None, Sequence[str], bool]
CASES: dict[str, Case] = {
    "attachments count without pods": (mounts("e0"), [], {EBS: 2}, ["e1", "e2"], False),
    "attachments below the limit": (mounts("e0"), [], {EBS: 2}, ["e1"], True),
    "the limit is not reached": (mounts("e0"), [mounts("e3"), MOUNTED], {EBS: 4}, [], True),
    "the limit is reached": (mounts("e0"), [mounts("e3"), MOUNTED], {EBS: 2}, [], False),
    "the driver has no limit": (mounts("e0"), [mounts("e3"), MOUNTED], {EBS: None}, [], True),
    "pending claims count": (mounts("e0"), [mounts("pending"), mounts("e1")], {EBS: 2}, [], False),
    "a pending claim counts once": (
        mounts("e0"),
        [mounts("pending"), mounts("pending"), MOUNTED],
        {EBS: 4},
        [],
        True,
    ),
    "a claim without its volume counts": (
        mounts("e0"),
        [mounts("no-volume"), mounts("e1")],
        {EBS: 2},
        [],
        False,
    ),
    "a claim without class counts not": (
        mounts("e0"),
        [mounts("e3"), mounts("no-class")],
        {EBS: 2},
        [],
        True,
    ),
    "the same driver among others": (
        mounts("e0"),
        [mounts("g0", "g1"), MOUNTED],
        {EBS: 2, GCE: 2},
        [],
        False,
    ),
    "another driver": (mounts("g0", "g1"), [MOUNTED, mounts("e3")], {EBS: 2, GCE: 2}, [], True),
    "in-tree volumes": (mounts("t0"), [mounts("t1", "t2")], {EBS: 2}, [], False),
    "no CSINode": (inline(aws("vol-own")), [mounts("t1", "t2")], None, [], True),
    "an old volume, no limit": (mounts("t0"), [mounts("t1", "t2")], {EBS: None}, [], True),
    "a volume without driver": (mounts("path"), [MOUNTED], {EBS: 2}, [], True),
    "an inline disk": (inline(aws("vol-own")), [mounts("t1", "t2")], {EBS: 2}, [], False),
    "an old volume beside those of the driver": (mounts("t0"), [MOUNTED], {EBS: 2}, [], False),
    "inline, old and of the driver": (inline(aws("vol-own")), [MOUNTED, mounts("t0")], {EBS: 3}, [], False),
    "inline, the volume is attached": (inline(aws("vol-1")), [MOUNTED, mounts("t0")], {EBS: 3}, [], True),
    "of the driver, beside old ones": (mounts("e0"), [mounts("t1", "t2")], {EBS: 2}, [], False),
    "ephemeral claims": (mounts("e0"), [mounts(ephemeral=["tmp"]), mounts("e1")], {EBS: 2}, [], False),
    "ephemeral claims below the limit": (
        mounts("e0"),
        [mounts(ephemeral=["tmp"]), MOUNTED],
        {EBS: 4},
        [],
        True,
    ),
    "the volume of a pod is attached already": (mounts("e1"), [MOUNTED], {EBS: 2}, [], True),
    "one of two is attached already": (mounts("e1", "e0"), [MOUNTED], {EBS: 2}, [], False),
    "an attachment of a pod counts once": (mounts("e0"), [MOUNTED], {EBS: 3}, ["e1", "e2"], True),
    "the attachment of its own volume counts beside it": (mounts("e0"), [], {EBS: 1}, ["e0"], False),
    "an attachment of an old volume counts not": (mounts("e0"), [], {EBS: 1}, ["t0"], True),
    "an attachment of a volume that is gone": (mounts("e0"), [], {EBS: 1}, ["gone"], True),
    "no volume": ({}, [MOUNTED], {EBS: 0}, [], True),
}


def objects_of(limits: Limits | None, attached: Sequence[str] = ()) -> list[Any]:
    volumes = [volume(name, **source) for name, source in VOLUMES.items()]
    claims = [claim(name, name) for name in VOLUMES]
    nodes: list[Any] = [node("m"), node("n")]
    nodes += [csi_node("n", limits)] if limits is not None else []
    return [*CLASSES, *volumes, *claims, *CLAIMS, *nodes, *(attachment(name, "n", EBS) for name in attached)]


@pytest.mark.parametrize("frees", [True, False], ids=["kep", "kube-scheduler"])
@pytest.mark.parametrize(("spec", "there", "limits", "attached", "fits"), CASES.values(), ids=CASES)
def test_attach_limits(  # noqa: PLR0917 - the columns of the table
    spec: dict[str, Any],
    there: Sequence[dict[str, Any]],
    limits: Limits | None,
    attached: Sequence[str],
    fits: bool,
    frees: bool,
) -> None:
    """The node without limits takes every pod, and preemption may help on the other."""
    snapshot = empty_snapshot()
    running = [pod(f"p{number}", node="n", **each) for number, each in enumerate(there)]
    chain = Chain(snapshot, {}, own_rules=frees)
    for each in [*objects_of(limits, attached), *running]:
        snapshot.apply(None, each)
    wanted = snapshot.shape_of(pod("new", **spec))
    rows = [snapshot.row[name] for name in "mn"]
    assert (wanted.missing, wanted.refused) == ((), "")
    assert [chain.reasons(wanted, row) for row in rows] == [(), () if fits else (FULL,)]
    assert chain.feasible(wanted)[rows].tolist() == [True, fits]
    assert [chain.fits(wanted, row) for row in rows] == [True, fits]
    assert chain.static(wanted)[rows].all()


def test_limits_follow_every_object() -> None:
    """Each change opens or closes the node for a pod with one volume."""
    snapshot = empty_snapshot()
    chain = Chain(snapshot, {})
    for each in objects_of({EBS: 2}):
        snapshot.apply(None, each)
    wanted, n = snapshot.shape_of(pod("new", **mounts("e0"))), node("n")
    user, other = pod("user", node="n", **mounts("e1")), pod("other", node="n", **mounts("e1"))
    changes: list[tuple[object, object, bool]] = [
        (None, user, True),
        (None, other, True),
        (None, attachment("e1", "n", EBS), True),
        (None, attachment("e2", "n", EBS), False),
        (None, csi_node("n", {EBS: 3}), True),
        (None, csi_node("n", {EBS: 2}), False),
        (user, None, False),
        (other, None, False),
        (attachment("e1", "n", EBS), None, True),
        (None, attachment("e3", "n", EBS), False),
        (volume("e3"), None, True),
        (None, volume("e3", **csi(EBS, "vol-3")), False),
        (n, None, False),
        (None, n, False),
        (csi_node("n", {}), None, True),
    ]
    for before, after, fits in changes:
        snapshot.apply(before, after)
        row = snapshot.row.get("n")
        assert (row is not None and chain.fits(wanted, row)) is fits, (before, after)
        assert row is None or chain.feasible(wanted)[row] == fits


HANDLES: dict[str, tuple[dict[str, Any], dict[str, str], Attachment | None]] = {
    "csi": (csi("d", "h"), {}, Attachment("d", "h")),
    "csi without handle": (csi("d", ""), {}, None),
    "gce": (
        {"gcePersistentDisk": {"pdName": "a"}},
        {},
        Attachment(GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/a", True),
    ),
    "gce in a zone": (
        {"gcePersistentDisk": {"pdName": "a"}},
        {"topology.kubernetes.io/zone": "us-west1-a"},
        Attachment(GCE, "projects/UNSPECIFIED/zones/us-west1-a/disks/a", True),
    ),
    "gce in a region": (
        {"gcePersistentDisk": {"pdName": "a"}},
        {"failure-domain.beta.kubernetes.io/zone": "us-west1-a__us-west1-b"},
        Attachment(GCE, "projects/UNSPECIFIED/regions/us-west1/disks/a", True),
    ),
    "aws": (aws("vol-1"), {}, Attachment(EBS, "vol-1", True)),
    "aws in a zone": (aws("aws://eu-1a/vol-1"), {}, Attachment(EBS, "vol-1", True)),
    "aws without zone": (aws("aws:///vol-1"), {}, Attachment(EBS, "vol-1", True)),
    "aws, not readable": (aws("aws://eu-1a/snap-1"), {}, None),
    "azure": (
        {"azureDisk": {"diskURI": "/d", "kind": "Managed"}},
        {},
        Attachment("disk.csi.azure.com", "/d", True),
    ),
    "azure, shared": ({"azureDisk": {"diskURI": "/d", "kind": "Shared"}}, {}, None),
    "cinder": ({"cinder": {"volumeID": "c"}}, {}, Attachment("cinder.csi.openstack.org", "c", True)),
    "portworx": ({"portworxVolume": {"volumeID": "p"}}, {}, Attachment("pxd.portworx.com", "p", True)),
    "a path of the node": ({}, {}, None),
}


@pytest.mark.parametrize(("source", "labels", "handle"), HANDLES.values(), ids=HANDLES)
def test_the_handle_of_a_volume(
    source: dict[str, Any], labels: dict[str, str], handle: Attachment | None
) -> None:
    """A volume counts by its claim; an old disk that a pod names counts in the same way, without its zone."""
    known = Volumes()
    known.apply_claim(claim("c", "v"), gone=False)
    known.apply_volume(volume("v", labels=labels, **source), gone=False)
    expected = (handle,) if handle is not None else ()
    assert attachments_of(pod("p", **mounts("c")), known) == expected
    if source and "csi" not in source and not labels:
        assert attachments_of(pod("p", **inline(source)), known) == expected


PROVISIONERS = [
    (EBS, EBS, False),
    ("kubernetes.io/aws-ebs", EBS, True),
    ("kubernetes.io/vsphere-volume", None, False),
    ("kubernetes.io/no-provisioner", None, False),
]


@pytest.mark.parametrize(("provisioner", "driver", "replaced"), PROVISIONERS)
def test_an_unbound_claim_counts_by_its_class(provisioner: str, driver: str | None, replaced: bool) -> None:
    known = Volumes()
    known.apply_claim(claim("c", storageClassName="s"), gone=False)
    known.apply_class(storage_class("s", provisioner=provisioner), gone=False)
    found = attachments_of(pod("p", **mounts("c")), known)
    assert [(each.driver, each.replaced) for each in found] == ([(driver, replaced)] if driver else [])


# VolumeLimitScaling.


@pytest.mark.parametrize(
    ("minor", "required", "installed", "fits"),
    [
        pytest.param(37, True, {EBS: None}, True, id="installed"),
        pytest.param(37, True, {GCE: None}, False, id="not installed"),
        pytest.param(37, True, None, False, id="no CSINode"),
        pytest.param(37, False, None, True, id="not required"),
        pytest.param(37, None, None, True, id="not known"),
        pytest.param(36, True, None, True, id="the gate is off in 1.36"),
    ],
)
def test_a_driver_must_be_installed_if_it_says_so(
    minor: int, required: bool | None, installed: Limits | None, fits: bool
) -> None:
    """No preemption helps, and the text names the driver."""
    snapshot = empty_snapshot(minor)
    chain = Chain(snapshot, {})
    for each in (
        *objects_of(installed),
        *([csi_driver(EBS, required=required)] if required is not None else []),
    ):
        snapshot.apply(None, each)
    snapshot.apply(None, csi_node("m", {EBS: None}))
    wanted, n = snapshot.shape_of(pod("new", **mounts("e0"))), snapshot.row["n"]
    text = f"{EBS} CSI driver is not installed on the node"
    assert chain.reasons(wanted, n) == (() if fits else (text,))
    assert chain.feasible(wanted).sum() == 1 + fits
    assert chain.static(wanted)[n] == fits
    assert fits or chain.refusals(wanted).reasons == ((text, 1, ("n",)),)
    assert chain.unmet(wanted).first == ("" if fits else f"1 {text}")
    snapshot.apply(None, csi_node("n", {EBS: None}))
    assert chain.fits(wanted, n)


def test_an_old_disk_needs_no_driver_on_a_node_without_any() -> None:
    snapshot = empty_snapshot()
    chain = Chain(snapshot, {})
    for each in (*objects_of(None), csi_driver(EBS, required=True), csi_node("m", {})):
        snapshot.apply(None, each)
    wanted = snapshot.shape_of(pod("new", **mounts("t0")))
    assert [chain.fits(wanted, snapshot.row[name]) for name in "mn"] == [False, True]


# Preemption.

HIGH: dict[str, Any] = mounts("e0")


def cluster(*there: Any, attached: Sequence[str] = (), limit: int = 1) -> list[Any]:
    """Make one node with a limit, and pods on it."""
    storage: list[Any] = [
        each for each in objects_of({EBS: limit}, attached) if each.metadata.name not in "mn"
    ]
    return [machine("n"), csi_node("n", {EBS: limit}), *storage, *there]


EVERY = [Semantics.KEP, Semantics.V1_36, Semantics.V1_37]


@pytest.mark.parametrize("semantics", EVERY)
def test_a_victim_frees_a_slot(semantics: Semantics) -> None:
    """A pod without a volume of the driver is no victim, though it is less important."""
    there = [pod_of("user", 1, 1, node="n", **mounts("e1")), pod_of("other", node="n", **mounts("g0"))]
    plan = planned(*cluster(*there), pod_of("high", 1, 5, **HIGH), semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["user"])


@pytest.mark.parametrize("semantics", EVERY)
def test_a_pod_that_shares_a_volume_frees_no_slot(semantics: Semantics) -> None:
    """Both users of the volume have to leave."""
    there = [pod_of("a", node="n", **mounts("e1")), pod_of("b", node="n", **mounts("e1"))]
    plan = planned(*cluster(*there), pod_of("high", 1, 5, **HIGH), semantics=semantics)
    assert sorted(victims(plan)) == ["a", "b"]
    there[1] = pod_of("b", 1, 9, node="n", **mounts("e1"))
    plan = planned(*cluster(*there), pod_of("high", 1, 5, **HIGH), semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])
    assert f"1 {FULL}" in plan.message


def test_a_volume_that_a_victim_shares_takes_a_slot_once_it_is_gone() -> None:
    """The pod fits as far as volumes decide while `sharer` runs, but needs the room of two pods.

    Without its sharer its volume is a second one of the driver, so `sharer` stays although it is less
    important than `user`. Found by the differential.
    """
    there = [
        pod_of("user", 1, 3, node="n", **mounts("e1")),
        pod_of("sharer", 1, 2, node="n", **mounts("e0")),
        pod_of("other", 1, 1, node="n", **mounts("e2")),
        pod_of("last", 1, 0, node="n"),
    ]
    plan = planned(*cluster(*there), pod_of("high", 2, 5, **HIGH), semantics=Semantics.V1_37)
    assert (plan.outcome, sorted(victims(plan))) == (Outcome.FITS_AFTER_PREEMPTION, ["last", "user"])


@pytest.mark.parametrize("semantics", EVERY)
def test_no_victim_shares_its_volume_if_the_slot_is_taken_by_an_attachment(semantics: Semantics) -> None:
    """The node is full of volumes that no eviction detaches."""
    there = [pod_of("sharer", 2, 1, node="n", **mounts("e0")), pod_of("other", 2, 2, node="n")]
    plan = planned(*cluster(*there, attached=["e1"]), pod_of("high", 3, 5, **HIGH), semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.DOES_NOT_FIT, [])


@pytest.mark.parametrize(
    ("semantics", "gone"), [(Semantics.KEP, ["user"]), (Semantics.V1_36, []), (Semantics.V1_37, [])]
)
def test_the_attachment_of_a_victim_goes_with_it_only_under_kep(
    semantics: Semantics, gone: list[str]
) -> None:
    """kube-scheduler counts the VolumeAttachment, and evicts no pod whose volume is attached."""
    there = [pod_of("user", node="n", **mounts("e1"))]
    plan = planned(*cluster(*there, attached=["e1"]), pod_of("high", 1, 5, **HIGH), semantics=semantics)
    assert victims(plan) == gone


@pytest.mark.parametrize("semantics", EVERY)
def test_a_gang_frees_slots(semantics: Semantics) -> None:
    """Members need two of three slots, and two of the users stay."""
    there = [
        *(pod_of(f"user-{number}", 1, number, node="n", **mounts(f"e{number}")) for number in (2, 3)),
        pod_of("free", node="n"),
    ]
    members = [
        pod_of("high-0", 1, 5, group="high", **mounts("e0")),
        pod_of("high-1", 1, 5, group="high", **mounts("e1")),
    ]
    nodes = [each for each in cluster(limit=3) if each.metadata.name != "n"]
    nodes += [machine("n", 8), csi_node("n", {EBS: 3})]
    plan = planned(*nodes, *there, group("high", 5, 2), *members, by=of("high"), semantics=semantics)
    assert (plan.outcome, victims(plan)) == (Outcome.FITS_AFTER_PREEMPTION, ["user-2"])


def test_a_claim_is_counted_where_its_pod_is_placed() -> None:
    """Two members share no slot unless they share the volume."""
    members = [pod_of(f"high-{number}", 1, 5, group="high", **mounts("e0")) for number in range(2)]
    fits = planned(*cluster(), group("high", 5, 2), *members, by=of("high"))
    assert fits.outcome is Outcome.FITS
    members[1] = pod_of("high-1", 1, 5, group="high", **mounts("e1"))
    assert planned(*cluster(), group("high", 5, 2), *members, by=of("high")).outcome is Outcome.DOES_NOT_FIT


@pytest.mark.parametrize("limit", [1, 2])
def test_no_pod_is_evicted_while_a_volume_without_pods_is_attached(limit: int) -> None:
    """It is detached some seconds after its last pod; the next victim would be evicted for nothing."""
    there = [pod_of("user", node="n", **mounts("e2"))]
    plan = planned(*cluster(*there, attached=["e1"], limit=limit), pod_of("high", 1, 5, **HIGH))
    assert victims(plan) == []
    assert (AttachLimitsFilter.AWAITS in plan.message) is (limit > 1)
    assert f"1 {FULL}" in plan.message
    detached = planned(*cluster(*there, limit=limit), pod_of("high", 1, 5, **HIGH))
    assert victims(detached) == (["user"] if limit == 1 else [])


# A plain count of what is attached, without arrays and without moves.


def plain_fits(snapshot: Snapshot, wanted: Shape, row: int, limit: int, *, frees: bool) -> bool:
    """Return whether a node attaches the volumes of a shape, from the objects and the places of pods."""
    known, here, by_pods = snapshot.plugin(VolumesPlugin).known, set[str](), set[str]()
    for pod_row in snapshot.pod_row.values():
        handles = {each.handle for each in volume_needs(snapshot.shape_at(pod_row)).attachments}
        here |= handles if snapshot.node.item(pod_row) == row else set()
        by_pods |= handles if snapshot.home.item(pod_row) == row else set()
    attached = set()
    for each in known.attached(snapshot.node_name(row)):
        found = attachment_of(known.volumes[each.volume])
        assert found is not None
        attached.add(found.handle)
    if frees:
        attached -= by_pods
    new = {each.handle for each in volume_needs(wanted).attachments} - here
    return not new or len(here | attached) + len(new) <= limit


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "gone", "attach", "detach", "limit", "node"]),
        st.integers(0, 3),
        st.sets(st.sampled_from(["e0", "e1", "e2"])),
        st.sampled_from("mn"),
    ),
    max_size=12,
)


@given(ACTIONS, st.booleans(), st.sets(st.integers(0, 3)))
def test_counts_follow_any_change(
    actions: list[tuple[str, int, set[str], str]], frees: bool, leaving: set[int]
) -> None:
    """After each change, and without some pods, the answer is that of a count of all objects."""
    snapshot = empty_snapshot()
    chain = Chain(snapshot, {}, own_rules=frees)
    limits = dict.fromkeys("mn", 1)
    for each in (*objects_of({EBS: 1}), csi_node("m", {EBS: 1})):
        snapshot.apply(None, each)
    wanted = snapshot.shape_of(pod("new", **mounts("e0", "e3")))

    def check() -> None:
        rows = {name: snapshot.row[name] for name in "mn"}
        expected = [
            plain_fits(snapshot, wanted, row, limits[name], frees=frees) for name, row in rows.items()
        ]
        assert chain.feasible(wanted)[[*rows.values()]].tolist() == expected
        assert [chain.fits(wanted, row) for row in rows.values()] == expected

    for what, number, names, where in actions:
        match what:
            case "pod":
                snapshot.apply(None, pod(f"p{number}", node=where, **mounts(*sorted(names))))
            case "gone":
                snapshot.apply(pod(f"p{number}"), None)
            case "attach" | "detach":
                for name in names:
                    made = attachment(name, where, EBS)
                    snapshot.apply(*((None, made) if what == "attach" else (made, None)))
            case "limit":
                limits[where] = number
                snapshot.apply(None, csi_node(where, {EBS: number}))
            case _:
                snapshot.apply(node(where), None)
                snapshot.apply(None, node(where))
        check()
    gone = [row for number in leaving if (row := snapshot.pod_row.get((NS, f"p{number}"))) is not None]
    with snapshot.trial():
        snapshot.remove_many(np.array(gone, np.intp))
        check()
    check()
