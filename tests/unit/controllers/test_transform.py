"""The transform of cached objects: the result is small, shared, and enough for every decision."""

import tracemalloc
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.audit.builders import NEW, NS, OLD, pod, priority_class
from tests.support.preemption import scene

from podium.api.core import PODIUM_SCHEDULER, Namespace, Pod, PodSpec, PodStatus, PodTemplate, SchedulingGroup
from podium.api.findings import ObjectRef
from podium.api.groups import (
    FINALIZER,
    GROUP_LABEL,
    NATIVE_GROUP,
    PODIUM_GROUP,
    CompositeGroup,
    DisruptionMode,
    PodGroup,
    TemplateRef,
)
from podium.api.meta import Condition, ObjectMeta, OwnerReference
from podium.api.podkinds.jobset import JOBSET_INDEX, JOBSET_NAME, JOBSET_ROLE
from podium.api.podkinds.kind import Branch, PodOwner
from podium.api.podkinds.leaderworkerset import LWS_GROUP, LWS_NAME
from podium.cluster.state import ClusterState, Readable
from podium.controllers import autogroups, divergence, protection
from podium.controllers.conditions import OURS, POLICY, PRIORITY, judged
from podium.controllers.divergence import Times, Write
from podium.controllers.process import transform
from podium.groups.autogroups import (
    AUTO,
    AUTO_LABEL,
    DISRUPTION_LABEL,
    ENABLED,
    LABELS,
    NAMESPACE_LABEL,
    REQUIRED_TOPOLOGY,
    SINGLE,
    TREE_LABEL,
)
from podium.groups.divergence import ServerInfo

NOW = datetime(2026, 11, 21, 16, 0, tzinfo=UTC)
PRIORITIES = (None, 0, 1000)
CLASSES = ("", "gold", "silver")
UIDS = ("u1", "u1", "u1", "u2")  # two objects of one name; likely values are listed more than once


class Made(NamedTuple):
    """A gang as its controllers create it: its owner, its group, and its pods with their owners."""

    owner: tuple[str, str, str]
    group: str
    pod: str
    maker: tuple[str, str, str]
    labels: dict[str, str]


JOBSET_LABELS = {JOBSET_NAME: "set", JOBSET_ROLE: "role", JOBSET_INDEX: "0"}
JOB, JOBSET = ("batch/v1", "Job", "train"), ("jobset.x-k8s.io/v1alpha2", "JobSet", "set")
LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve")
TREE = {AUTO_LABEL: AUTO, TREE_LABEL: AUTO}
GANGS = (
    Made(JOB, "train-job", "train-", JOB, {DISRUPTION_LABEL: SINGLE}),
    Made(JOBSET, "set-jobset", "set-role-0-", ("batch/v1", "Job", "set-role-0"), JOBSET_LABELS),
    Made(JOBSET, "set-role-0-child", "set-role-0-", ("batch/v1", "Job", "set-role-0"), JOBSET_LABELS | TREE),
    Made(
        LWS,
        "serve-0-lws",
        "serve-0-",
        ("apps/v1", "StatefulSet", "serve-0"),
        {LWS_NAME: "serve", LWS_GROUP: "0"},
    ),
)
assert {AUTO_LABEL, *(name for each in GANGS for name in each.labels)} == set(LABELS)

conditions = st.builds(
    Condition,
    type=st.sampled_from((*OURS, "PodGroupInitiallyScheduled")),
    status=st.sampled_from(("True", "False", "Unknown")),
    reason=st.just("Because"),
    message=st.sampled_from(("", "so it is")),
    lastTransitionTime=st.just(OLD),
)


def metadata(
    name: str, labels: dict[str, str], owner: tuple[str, str, str] | None, namespace: str | None = NS
) -> st.SearchStrategy[ObjectMeta]:
    """Return metadata with all fields of a stored object; with these labels, others, or none."""
    made_by = (
        st.none()
        if owner is None
        else st.sampled_from(UIDS).map(lambda uid: [OwnerReference(*owner, uid, controller=True)])
    )
    noise = {"app": "trainer"}
    return st.builds(
        ObjectMeta,
        name=st.just(name),
        namespace=st.just(namespace),
        uid=st.sampled_from(UIDS),
        resourceVersion=st.just("41"),
        generation=st.sampled_from((None, 3)),
        creationTimestamp=st.sampled_from((OLD, NEW)),
        deletionTimestamp=st.sampled_from((*[None] * 4, NEW)),
        labels=st.sampled_from((*[labels | noise] * 4, noise, None)),
        annotations=st.sampled_from((None, {"note": "long"}, {"note": "long", REQUIRED_TOPOLOGY: "rack"})),
        finalizers=st.sampled_from((None, ["a/b", FINALIZER])),
        ownerReferences=made_by,
    )


def pods(made: Made) -> st.SearchStrategy[Pod]:
    """Return pods of a gang, which are in its group by the label or the field, or in none."""
    return st.builds(
        lambda meta, index, class_name, group, *fields: Pod(
            metadata=msgspec.structs.replace(meta, name=f"{made.pod}{index}"),
            spec=PodSpec(
                priorityClassName=class_name or None,
                schedulingGroup=SchedulingGroup(group) if group is not None else None,
                priority=fields[0],
                preemptionPolicy=fields[1],
                schedulerName=fields[2],
                nodeName="node-0",
            ),
            status=PodStatus(fields[3]),
        ),
        metadata("", {GROUP_LABEL: made.group, AUTO_LABEL: AUTO, **made.labels}, made.maker),
        st.integers(0, 3),
        st.sampled_from(CLASSES),
        st.sampled_from((None, None, "", made.group)),
        st.sampled_from(PRIORITIES),
        st.sampled_from((None, "Never")),
        st.sampled_from((None, "default-scheduler", PODIUM_SCHEDULER)),
        st.sampled_from(("Running", "Running", "Succeeded", "")),
    )


def groups(made: Made) -> st.SearchStrategy[PodGroup]:
    """Return the group of a gang, native or Podium's."""
    root = "set-jobset" if TREE_LABEL in made.labels else ""
    return st.builds(
        lambda api, meta, *fields: PodGroup(
            ObjectRef(f"{api}/v1beta1", "PodGroup", NS, meta.name), meta, 2, *fields
        ),
        st.sampled_from((NATIVE_GROUP, PODIUM_GROUP, PODIUM_GROUP)),
        metadata(made.group, {}, made.owner),
        st.sampled_from(DisruptionMode),
        st.sampled_from(CLASSES),
        st.sampled_from(PRIORITIES),
        st.sampled_from((None, "PreemptLowerPriority")),
        st.just(TemplateRef("work", "template")),
        st.lists(conditions, max_size=3, unique_by=lambda each: each.type).map(tuple),
    ).map(lambda group: msgspec.structs.replace(group, composite=root))


def roots(made: Made) -> st.SearchStrategy[CompositeGroup]:
    """Return the composite group of the JobSet of a gang."""
    ref = ObjectRef(f"{PODIUM_GROUP}/v1beta1", "CompositePodGroup", NS, "set-jobset")
    fields = DisruptionMode.POD_GROUP, "gold", 1000, None, TemplateRef("work", "template"), "", "rack"
    return st.builds(
        lambda meta, held: CompositeGroup(ref, meta, 2, *fields, held),
        metadata("set-jobset", {}, made.owner),
        st.lists(conditions, max_size=1).map(tuple),
    )


def owners(
    made: Made, kind: tuple[str, str, str], by: tuple[str, str, str] | None
) -> st.SearchStrategy[PodOwner]:
    """Return the owner of a gang, or an object between it and the pods."""
    return st.builds(
        lambda meta, size: PodOwner(
            ObjectRef(kind[0], kind[1], NS, kind[2]),
            meta,
            {"spec.template": PodTemplate(spec=PodSpec())},
            1,
            size,
            branches=(Branch("role", 2, size, made.labels, {}),),
        ),
        metadata(kind[2], made.labels, by),
        st.integers(0, 3),
    )


def between(made: Made) -> st.SearchStrategy[PodOwner]:
    """Return the object between a gang's owner and its pods, or the owner if there is none."""
    return owners(made, made.maker, None if made.maker == made.owner else made.owner)


namespaces = st.builds(Namespace, metadata=metadata(NS, {NAMESPACE_LABEL: ENABLED}, None, None))
classes = st.builds(
    priority_class, st.sampled_from(("gold", "silver")), st.sampled_from((0, 1000)), default=st.booleans()
)


def objects(made: Made) -> st.SearchStrategy[Readable]:
    """Return any object of one gang."""
    given_by_others = owners(made, made.owner, None) | between(made) | namespaces | classes
    return pods(made) | groups(made) | roots(made) | given_by_others


def clusters(made: Made) -> st.SearchStrategy[list[Readable]]:
    """Return all objects of one gang, in an order in which the informers may deliver them."""
    return st.tuples(
        namespaces,
        between(made),
        owners(made, made.owner, None),
        st.lists(groups(made), max_size=1),
        st.lists(pods(made), min_size=1, max_size=3),
        st.lists(objects(made), max_size=4),
    ).map(lambda parts: [*parts[:3], *(each for part in parts[3:] for each in part)])


def decisions(state: ClusterState, history: list[tuple[Readable | None, Readable]]) -> list[object]:
    """Return all decisions on every possible group, and the events before them."""
    found: list[object] = [
        divergence.flips(before if isinstance(before, PodGroup) else None, after)
        for before, after in history
        if isinstance(after, PodGroup)
    ]
    for key in sorted({*state.groups, *state.referenced_groups(), *state.composites, *state.children}):
        group, members = state.groups.get(key), state.members(key)
        found += [key, sorted(members)]
        if group is not None:
            verdicts = judged(group, members.values(), state.classes, ServerInfo(37, "1.37"), policy=True)
            times = Times(quiet=60.0, since_write=60.0)
            found += [verdicts, *(divergence.decide(group, verdicts, times, write, NOW) for write in Write)]
        found += [protection.decide(state, key, protect=protect) for protect in (True, False)]
        found.append(autogroups.decide(state, key))
    return found


def followed(objects: list[Readable], *, native: bool) -> list[object]:
    """Return the decisions on a state that received these objects one after the other."""
    state = ClusterState(native_served=native)
    history: list[tuple[Readable | None, Readable]] = []
    state.observe(lambda before, after: history.append((before, after)) if after is not None else None)
    for each in objects:
        state.apply(each)
    return decisions(state, history)


@settings(max_examples=200)
@given(st.one_of([clusters(each) for each in GANGS]), st.booleans())
def test_every_decision_is_the_same_on_what_is_kept(history: list[Readable], native: bool) -> None:
    """The events that two states of one group cause are also equal."""
    assert followed([transform(each) for each in history], native=native) == followed(history, native=native)


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("scheduler", [PODIUM_SCHEDULER, "default-scheduler", None])
def test_the_condition_speaks_for_the_scheduler_of_the_pods(
    scheduler: str | None, native: bool, minor: int
) -> None:
    member = scene.pod("p", priority=3, group="g", schedulerName=scheduler)
    group, server = scene.group("g", 5, 1, native=native), ServerInfo(minor, f"1.{minor}")
    kept = transform(member)
    assert isinstance(kept, Pod)
    as_read, as_kept = (
        judged(group, [each], {}, server, policy=False)[0].condition.message or "" for each in (member, kept)
    )
    assert as_kept == as_read
    assert ("divergencePolicy" in as_kept) == (scheduler == PODIUM_SCHEDULER)


@given(st.one_of([objects(each) for each in GANGS]))
def test_the_transform_keeps_identities_and_is_idempotent(obj: Readable) -> None:
    """An informer knows objects by name, UID and resourceVersion; a second transform changes nothing."""
    kept = transform(obj)
    for field in ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"):
        assert getattr(kept.metadata, field) == getattr(obj.metadata, field)
    assert transform(kept) == kept


def test_members_share_what_they_have_in_common() -> None:
    """Spec, status, owners and labels of the pods of one group are stored once, however they were read."""
    labels = {AUTO_LABEL: AUTO, "rank": "1"}
    first, second = (
        transform(
            msgspec.json.decode(msgspec.json.encode(pod(name, podium="train", labels=labels)), type=Pod)
        )
        for name in ("a", "b")
    )
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert first.metadata.labels == {GROUP_LABEL: "train", AUTO_LABEL: AUTO}
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.ownerReferences is second.metadata.ownerReferences
    assert first.metadata.creationTimestamp is second.metadata.creationTimestamp
    assert first.spec is second.spec
    assert first.status is second.status


def test_of_a_pod_in_no_group_only_its_identity_stays() -> None:
    kept = transform(pod("alone", priority=7, class_name="gold", labels={"app": "web"}))
    assert kept == Pod(
        metadata=ObjectMeta(
            name="alone",
            namespace=NS,
            ownerReferences=[OwnerReference("batch/v1", "Job", "train", uid="train", controller=True)],
        )
    )


def test_conditions_of_others_do_not_stay() -> None:
    held = tuple(
        Condition(type=kind, status="True") for kind in (PRIORITY, "PodGroupInitiallyScheduled", POLICY)
    )
    ref = ObjectRef(f"{NATIVE_GROUP}/v1beta1", "PodGroup", NS, "train")
    meta = ObjectMeta(name="train", namespace=NS, annotations={"note": "long"})
    kept = transform(PodGroup(ref, meta, 2, DisruptionMode.POD, "", 0, None, None, held))
    assert isinstance(kept, PodGroup)
    assert [condition.type for condition in kept.conditions] == [PRIORITY, POLICY]
    assert kept.metadata == ObjectMeta(name="train", namespace=NS)


def test_a_member_takes_less_than_a_kilobyte() -> None:
    """100,000 pods in informer and state must leave room in 400 MiB for everything else."""
    many = 2_000
    raw = [
        msgspec.json.encode(
            msgspec.structs.replace(
                member,
                metadata=msgspec.structs.replace(
                    member.metadata, uid=f"00000000-0000-4000-8000-{index:012x}", resourceVersion=str(index)
                ),
            )
        )
        for index in range(many)
        for member in (pod(f"gang-{index // 10:05d}-{index % 10}-x7k2p", group=f"gang-{index // 10:05d}"),)
    ]
    state, known = ClusterState(native_served=True), {}
    tracemalloc.start()
    try:
        for each in raw:
            kept = transform(msgspec.json.decode(each, type=Pod))
            state.apply(kept)
            known[kept.metadata.namespace, kept.metadata.name] = kept
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(state.pods) == many
    assert size / many < 1024
