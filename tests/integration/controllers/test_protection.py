"""The protection of Podium's groups: a group stays as long as its pods need it, and no longer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.support.connection.cluster import CONTAINER
from tests.support.controllers.running import PODIUM_API, Place, Space, configuration, install, running
from tests.support.servers import exclusive
from tests.support.waiting import until
from tools.devcluster.controlplane.releases import NEWEST

from podium.api.core import Namespace, Pod, PodSpec, PodStatus, SchedulingGroup
from podium.api.findings import ObjectRef
from podium.api.groups import FINALIZER, GROUP_LABEL, NATIVE_GROUP, PODIUM_GROUP, DisruptionMode, PodGroup
from podium.api.membership import GroupKey
from podium.api.meta import ObjectMeta, OwnerReference
from podium.api.podkinds.kind import PodOwner
from podium.api.reads import Kind
from podium.cluster.state import ClusterState
from podium.controllers.actions import Reconciliation, SetFinalizers
from podium.controllers.protection import decide

TEAM = "team"
KEY = GroupKey(False, TEAM, "train")
GONE = "2026-01-02T03:04:05Z"
JOB = ("batch/v1", "Job")
JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
SET = ("apps/v1", "StatefulSet")
POD = ("v1", "Pod")

Kinds = tuple[str, str]


def _by(kind: Kinds, name: str, uid: str) -> list[OwnerReference]:
    return [OwnerReference(*kind, name, uid, controller=True)]


def _group(
    *finalizers: str, deleted: bool = False, owners: list[OwnerReference] | None = None, native: bool = False
) -> PodGroup:
    api_group = NATIVE_GROUP if native else PODIUM_GROUP
    meta = ObjectMeta(
        name="train",
        namespace=TEAM,
        uid="g1",
        resourceVersion="7",
        finalizers=list(finalizers) or None,
        deletionTimestamp=GONE if deleted else None,
        ownerReferences=owners,
    )
    ref = ObjectRef(f"{api_group}/v1beta1", "PodGroup", TEAM, "train")
    return PodGroup(ref, meta, 2, DisruptionMode.POD, "", None, None, None)


def _pod(
    name: str = "p",
    *,
    phase: str = "Pending",
    deleted: bool = False,
    owners: list[OwnerReference] | None = None,
    native: str | None = None,
    uid: str = "",
) -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace=TEAM,
        uid=uid or f"uid-{name}",
        labels={GROUP_LABEL: "train"},
        deletionTimestamp=GONE if deleted else None,
        ownerReferences=owners,
    )
    field = SchedulingGroup(native) if native else None
    return Pod(metadata=meta, spec=PodSpec(schedulingGroup=field), status=PodStatus(phase))


def _owner(kind: Kinds, name: str, uid: str, owners: list[OwnerReference] | None = None) -> PodOwner:
    meta = ObjectMeta(name=name, namespace=TEAM, uid=uid, ownerReferences=owners)
    return PodOwner(ObjectRef(*kind, TEAM, name), meta, {})


def _namespace(*, deleted: bool = False) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=TEAM, deletionTimestamp=GONE if deleted else None))


def _state(*objects: PodGroup | Pod | PodOwner | Namespace, native_served: bool = False) -> ClusterState:
    state = ClusterState(native_served=native_served)
    for obj in objects:
        state.apply(obj)
    return state


def decided(state: ClusterState, *, protect: bool = True) -> Reconciliation:
    """Return the decision about the group."""
    return decide(state, KEY, protect=protect)


def _finalizers(decision: Reconciliation) -> tuple[str, ...] | None:
    """Return the list that a decision writes, None without a write."""
    if not decision.actions:
        return None
    (action,) = decision.actions
    assert isinstance(action, SetFinalizers)
    assert (action.uid, action.resource_version) == ("g1", "7")
    return action.finalizers


class Case(NamedTuple):
    """A group, the other objects, and the expected finalizers; None if they stay."""

    group: PodGroup
    others: tuple[Pod | PodOwner | Namespace, ...]
    wanted: tuple[str, ...] | None
    native_served: bool = False


CASES = {
    "a new group": Case(_group(), (), (FINALIZER,)),
    "a new group with others' finalizers": Case(_group("b", "a"), (), ("b", "a", FINALIZER)),
    "a group that has it": Case(_group(FINALIZER), (), None),
    "a new group in a namespace that goes": Case(_group(), (_namespace(deleted=True),), None),
    "a new group in a namespace that stays": Case(_group(), (_namespace(),), (FINALIZER,)),
    "a deleted group without it": Case(_group("a", deleted=True), (), None),
    "a deleted group without pods": Case(_group(FINALIZER, deleted=True), (), ()),
    "others' finalizers stay": Case(_group("b", FINALIZER, "a", deleted=True), (), ("b", "a")),
    "a pending pod": Case(_group(FINALIZER, deleted=True), (_pod(),), None),
    "a running pod": Case(_group(FINALIZER, deleted=True), (_pod(phase="Running"),), None),
    "a terminating pod": Case(_group(FINALIZER, deleted=True), (_pod(deleted=True),), None),
    "finished pods": Case(
        _group(FINALIZER, deleted=True), (_pod("p", phase="Succeeded"), _pod("q", phase="Failed")), ()
    ),
    "one of two is finished": Case(
        _group(FINALIZER, deleted=True), (_pod("p", phase="Failed"), _pod("q")), None
    ),
    "a pod in a namespace that goes": Case(
        _group(FINALIZER, deleted=True), (_pod(), _namespace(deleted=True)), ()
    ),
    "a pod in a namespace that stays": Case(_group(FINALIZER, deleted=True), (_pod(), _namespace()), None),
    "a pod whose native field names another group": Case(
        _group(FINALIZER, deleted=True), (_pod(native="other"),), (), native_served=True
    ),
    "a pod whose native field is dropped": Case(
        _group(FINALIZER, deleted=True), (_pod(native="other"),), None, native_served=False
    ),
    "a deleted group is not held by its owner": Case(
        _group(FINALIZER, deleted=True, owners=_by(JOB, "j", "1")), (_owner(JOB, "j", "1"),), ()
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_finalizer(case: Case) -> None:
    state = _state(case.group, *case.others, native_served=case.native_served)
    decision = decided(state)
    assert _finalizers(decision) == case.wanted
    assert decision.again is None


@pytest.mark.parametrize("deleted", [False, True])
def test_native_groups_are_the_api_servers_own(deleted: bool) -> None:
    state = _state(_group(FINALIZER, deleted=deleted, native=True), native_served=True)
    assert decide(state, GroupKey(True, TEAM, "train"), protect=True) == Reconciliation()
    assert decided(state) == Reconciliation()


def test_pods_that_are_kept_from_us_may_exist() -> None:
    """The decision is repeated later; a namespace being deleted waits for no pod."""
    state = _state(_group(FINALIZER, deleted=True))
    state.note_unread({Kind.POD: "forbidden"})
    decision = decided(state)
    assert _finalizers(decision) is None
    assert decision.again
    state.apply(_namespace(deleted=True))
    assert _finalizers(decided(state)) == ()


@pytest.mark.parametrize("deleted", [False, True])
def test_switched_off_it_leaves_no_finalizer_behind(deleted: bool) -> None:
    state = _state(_group("a", FINALIZER, deleted=deleted), _pod())
    assert _finalizers(decided(state, protect=False)) == ("a",)
    state.apply(_group("a", deleted=deleted))
    assert decided(state, protect=False) == Reconciliation()


class Made(NamedTuple):
    """Pods of a group for the owner of uid `old`, and whether they hold it; None: unknown."""

    owner: OwnerReference
    others: tuple[Pod | PodOwner, ...]
    holds: bool | None


def _old(kind: Kinds) -> OwnerReference:
    return _by(kind, "x", "old")[0]


def _of_job(uid: str) -> Pod:
    return _pod(owners=_by(JOB, "x", uid))


def _of_jobset(uid: str, job: str) -> tuple[Pod, PodOwner]:
    return _pod(job, owners=_by(JOB, "x-a-0", job)), _owner(JOB, "x-a-0", job, _by(JOBSET, "x", uid))


def _replica(uid: str, *, leader_uid: str = "leader") -> tuple[Pod | PodOwner, ...]:
    """A leader and its worker."""
    return (
        _pod("x-0", owners=_by(SET, "x", f"set-{uid}"), uid="leader"),
        _owner(SET, "x", f"set-{uid}", _by(LWS, "x", uid)),
        _pod("x-0-1", owners=_by(SET, "x-0", "workers")),
        _owner(SET, "x-0", "workers", _by(POD, "x-0", leader_uid)),
    )


MADE = {
    "pods of the Job": Made(_old(JOB), (_of_job("old"),), True),
    "pods of the next Job": Made(_old(JOB), (_of_job("new"),), False),
    "pods of both Jobs": Made(
        _old(JOB), (_pod("p", owners=_by(JOB, "x", "new")), _pod("q", owners=_by(JOB, "x", "old"))), True
    ),
    "pods of another Job": Made(
        _old(JOB), (_pod(owners=_by(JOB, "y", "new")), _owner(JOB, "y", "new")), True
    ),
    "pods of another Job that is not known": Made(_old(JOB), (_pod(owners=_by(JOB, "y", "new")),), None),
    "pods without a group": Made(_old(JOB), (_pod(),), True),
    "pods of a ReplicaSet of its name": Made(
        _old(JOB),
        (
            _pod(owners=_by(("apps/v1", "ReplicaSet"), "x", "new")),
            _owner(("apps/v1", "ReplicaSet"), "x", "new"),
        ),
        True,
    ),
    "pods of the JobSet": Made(_old(JOBSET), _of_jobset("old", "j1"), True),
    "pods of the next JobSet": Made(_old(JOBSET), _of_jobset("new", "j1"), False),
    "pods of a Job that is not known yet": Made(_old(JOBSET), (_of_jobset("new", "j1")[0],), None),
    "pods of a Job that was replaced": Made(
        _old(JOBSET), (_of_jobset("new", "j1")[0], _of_jobset("new", "j2")[1]), None
    ),
    "pods of the LeaderWorkerSet": Made(_old(LWS), _replica("old"), True),
    "pods of the next LeaderWorkerSet": Made(_old(LWS), _replica("new"), False),
    "workers of a leader that was replaced": Made(_old(LWS), _replica("new", leader_uid="former"), None),
    "one protected victim, and one pod that is no victim": Made(
        _old(JOBSET), (_of_jobset("new", "j1")[0], _pod("q")), True
    ),
}


@pytest.mark.parametrize("case", MADE.values(), ids=MADE.keys())
def test_a_group_is_not_held_by_the_pods_of_its_owners_successor(case: Made) -> None:
    """The pods wait for a group of their own, which cannot be created while the old one exists."""
    state = _state(_group("a", FINALIZER, deleted=True, owners=[case.owner]), *case.others)
    decision = decided(state)
    assert _finalizers(decision) == (("a",) if case.holds is False else None)
    assert (decision.again is not None) == (case.holds is None)


def test_owners_that_own_each_other_are_not_followed_for_ever() -> None:
    """A cycle of owners shows no successor, so the pod holds the group."""
    state = _state(
        _group(FINALIZER, deleted=True, owners=[_old(JOBSET)]),
        _pod(owners=_by(JOB, "a", "a")),
        _owner(JOB, "a", "a", _by(JOB, "b", "b")),
        _owner(JOB, "b", "b", _by(JOB, "a", "a")),
    )
    assert decided(state) == Reconciliation()


LISTED_KINDS = st.none() | st.builds(
    _by, st.just(JOB), st.sampled_from("xy"), st.sampled_from(["old", "new"])
)
PODS = st.lists(
    st.builds(
        _pod,
        st.sampled_from("abc"),
        phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
        deleted=st.booleans(),
        owners=LISTED_KINDS,
    ),
    max_size=4,
)
FINALIZERS = st.lists(st.sampled_from(["a", "b/c", FINALIZER]), unique=True)


class World(NamedTuple):
    """A group, its namespace and its pods."""

    finalizers: list[str]
    owners: list[OwnerReference] | None
    deleted: bool
    namespace_goes: bool
    pods: list[Pod]

    def group(self, *finalizers: str) -> PodGroup:
        """The group with these finalizers."""
        return _group(*finalizers, deleted=self.deleted, owners=self.owners)


@given(st.builds(World, FINALIZERS, LISTED_KINDS, st.booleans(), st.booleans(), PODS), st.booleans())
def test_a_single_write_settles_the_finalizers(world: World, protect: bool) -> None:
    """A single write is enough; others' finalizers stay in order; an unfinished pod keeps its group."""
    state = _state(world.group(*world.finalizers), _namespace(deleted=world.namespace_goes), *world.pods)
    written = _finalizers(decided(state, protect=protect))
    if written is None:
        return
    others = [each for each in world.finalizers if each != FINALIZER]
    assert [each for each in written if each != FINALIZER] == others
    assert (FINALIZER in written) == (FINALIZER not in world.finalizers)
    if world.deleted and protect and not world.namespace_goes and world.owners is None:
        assert all(pod.finished for pod in state.members(KEY).values())
    state.apply(world.group(*written))
    assert decided(state, protect=protect) == Reconciliation()


UNSCHEDULED = {"schedulerName": "nobody"}


class Team(Space):
    """A namespace of a cluster, with methods for groups and their protection."""

    def exists(self, group: str) -> bool:
        """Return whether a group exists, terminating or not."""
        return self.server.request("GET", self.groups_path(group))[0] == 200

    def is_protected(self, group: str) -> bool:
        """Return whether a group has the finalizer."""
        metadata = self.ask("GET", self.groups_path(group))["metadata"]
        return FINALIZER in metadata.get("finalizers", ())

    def protected_group(self, name: str, **metadata: Any) -> None:
        """Make a group and wait until it is protected."""
        self.group(name)
        if metadata:
            self.ask("PATCH", self.groups_path(name), {"metadata": metadata})
        until(lambda: self.is_protected(name), f"{name} is protected")

    def delete(self, path: str) -> None:
        """Request the deletion of an object."""
        self.ask("DELETE", path)

    def settle(self) -> None:
        """Wait until the controller has released a group that was deleted later."""
        self.protected_group("later")
        self.delete(self.groups_path("later"))
        until(lambda: not self.exists("later"), "a group without pods goes")

    def job(self, group: str) -> str:
        """Create the Job `train` whose pods name a group, and wait for them; return its uid."""
        template = {
            "metadata": {"labels": {GROUP_LABEL: group}},
            "spec": {"containers": [CONTAINER], "restartPolicy": "Never", **UNSCHEDULED},
        }
        jobs = f"/apis/batch/v1/namespaces/{self.name}/jobs"
        body = {
            "metadata": {"name": "train"},
            "spec": {"parallelism": 2, "completions": 2, "template": template},
        }
        uid: str = self.ask("POST", jobs, body, code=201)["metadata"]["uid"]
        until(lambda: self.makers().count(uid) == 2, "the Job has its pods")
        return uid

    def makers(self) -> list[str]:
        """Return the uid of each pod's owner."""
        pods = self.ask("GET", self.pods_path())["items"]
        return [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods]


@pytest.fixture(scope="module")
def where() -> Iterator[Place]:
    """Yield a whole cluster without the gates, with Podium's resources."""
    with exclusive(NEWEST, workload_api=False, controllers=True) as server:
        install(server)
        yield Place(server, PODIUM_API)


@pytest.mark.server
def test_a_real_group_stays_until_its_last_pod_is_done(where: Place, tmp_path: Path) -> None:
    """A finished or deleted pod releases its group, a pending one does not.

    Others' finalizers stay.
    """
    team = Team(where)
    with running(where.server, tmp_path / "log"):
        team.protected_group("train")
        others = ["test/b", FINALIZER, "test/a"]
        team.ask("PATCH", team.groups_path("train"), {"metadata": {"finalizers": others}})
        team.pod("finishes", "train", **UNSCHEDULED)
        team.pod("goes", "train", **UNSCHEDULED)
        team.delete(team.groups_path("train"))
        team.settle()
        assert team.is_protected("train")
        team.finish("finishes")
        team.settle()
        assert team.is_protected("train")
        team.end("goes")
        until(lambda: not team.is_protected("train"), "nothing needs the group")
        assert team.ask("GET", team.groups_path("train"))["metadata"]["finalizers"] == ["test/b", "test/a"]


@pytest.mark.server
def test_a_real_namespace_goes_and_groups_in_it_are_held_no_longer(where: Place, tmp_path: Path) -> None:
    """A group that was deleted before is released at once, although a pod with another's finalizer stays."""
    team = Team(where)
    namespace = f"/api/v1/namespaces/{team.name}"
    with running(where.server, tmp_path / "log"):
        team.protected_group("train")
        team.protected_group("there")
        team.pod("held", "train", **UNSCHEDULED)
        team.ask("PATCH", team.pods_path("held"), {"metadata": {"finalizers": ["test/held"]}})
        team.delete(team.groups_path("train"))
        team.settle()
        assert team.is_protected("train")
        team.delete(namespace)
        until(lambda: not team.exists("train"), "the group goes")
        team.ask("PATCH", team.pods_path("held"), {"metadata": {"finalizers": None}})
        until(lambda: where.server.request("GET", namespace)[0] == 404, "the namespace goes")


@pytest.mark.server
def test_a_real_job_that_is_made_again_does_not_hold_the_group_of_the_first(
    where: Place, tmp_path: Path
) -> None:
    """A group's own pods hold it while they exist; those of its successor do not."""
    team = Team(where)
    with running(where.server, tmp_path / "log"):
        first = team.job("train-job")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": first, "controller": True}
        team.protected_group("train-job", ownerReferences=[owner])
        team.delete(team.groups_path("train-job"))
        team.settle()
        assert team.is_protected("train-job")
        team.delete(f"/apis/batch/v1/namespaces/{team.name}/jobs/train?propagationPolicy=Background")
        second = team.job("train-job")
        until(lambda: not team.exists("train-job"), "the first Job's group goes")
        assert set(team.makers()) == {second}


@pytest.mark.server
def test_switched_off_it_releases_what_real_groups_there_are(where: Place, tmp_path: Path) -> None:
    team = Team(where)
    with running(where.server, tmp_path / "on"):
        team.protected_group("train")
        team.protected_group("deleted")
        team.pod("pending", "deleted", **UNSCHEDULED)
        team.delete(team.groups_path("deleted"))
    with running(where.server, tmp_path / "off", configuration(tmp_path, groupProtection=False)):
        until(lambda: not team.is_protected("train"), "the finalizer goes")
        until(lambda: not team.exists("deleted"), "a deleted group goes")
