"""Kinds that are added, removed or change version while a cluster is watched, and waiting readers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, status
from tests.support.informer.changing import Resource, following
from tests.support.informer.scripted import priority_class

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.api.membership import GroupKey
from podium.api.reads import COMPOSITE_VERSION, PODIUM_COMPOSITE, READS, Kind
from podium.kube.discovery import Discovery, Served, settle
from podium.kube.reflector import Reflector

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
OLDER_GROUPS = "/apis/scheduling.k8s.io/v1alpha3/podgroups"
COMPOSITES = {
    True: "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups",
    False: "/apis/scheduling.podium.dev/v1beta1/compositepodgroups",
}
NATIVE = ("/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1alpha3")
PODS = "/api/v1/pods"
TRAIN = GroupKey(True, "team", "train")


def _group(version: int, api: str = "v1beta1") -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "train", "uid": "u", "resourceVersion": str(version)}
    return {
        "apiVersion": f"{NATIVE_GROUP}/{api}",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": {"basic": {}}},
    }


def _composite(*, native: bool, parent: str = "") -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "inner", "uid": "u", "resourceVersion": "7"}
    parents = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "apiVersion": COMPOSITE_VERSION if native else PODIUM_COMPOSITE,
        "kind": "CompositePodGroup",
        "metadata": metadata,
        "spec": {"schedulingPolicy": {"basic": {}}, **parents},
    }


def _serving_composites(*, native: bool) -> dict[str, Any]:
    """Return the resources of an API with composite groups, by path."""
    kinds = (("podgroups", "PodGroup", True), ("compositepodgroups", "CompositePodGroup", True))
    return {COMPOSITES[native].rpartition("/")[0]: list(kinds)}


def _member() -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "train-0", "uid": "p", "resourceVersion": "3"}
    spec = {"schedulingGroup": {"podGroupName": "train"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _without(fake: Fake, paths: Sequence[str]) -> dict[str, Any]:
    """Stop serving some versions; return them to restore them."""
    return {path: fake.resources.pop(path) for path in paths}


def _asked(fake: Fake, path: str) -> list[dict[str, str]]:
    """Return the queries of all requests for a path."""
    return [query for _, asked, query in fake.requests if asked == path]


async def test_synced_once_every_wanted_kind_was_read(tmp_path: Path) -> None:
    """Unwanted kinds are not requested, and are reported as such."""
    resources = {CLASSES: Resource(10, priority_class("gold", 5)), GROUPS: Resource(10, _group(7))}
    await resources[GROUPS].refuse(503, "ServiceUnavailable")
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS, Kind.POD_GROUP), resources) as scene:
        assert not scene.cluster.synced
        await scene.until(lambda: "gold" in scene.state.classes and "watch failed" in scene.events()[-1])
        assert not scene.cluster.synced
        assert scene.state.unread["Pod"] == "not watched"
        assert "503 ServiceUnavailable" in scene.state.unread["PodGroup"]
        resources[GROUPS].allow()
        scene.time.advance(1.0)
        await scene.until(lambda: scene.cluster.synced)
        assert set(scene.state.groups) == {TRAIN}
        assert "PodGroup" not in scene.state.unread
        paths = {path for _, path, query in scene.fake.requests if "watch" in query}
        assert paths == {CLASSES, GROUPS}


async def test_waiting_for_a_change_ends_with_it(tmp_path: Path) -> None:
    classes = Resource(10, priority_class("gold", 5))
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.until(lambda: scene.cluster.synced)
        revision = scene.state.revision
        await scene.cluster.changed(revision - 1)
        waiting = [asyncio.create_task(scene.cluster.changed(revision)) for _ in range(3)]
        given_up = asyncio.create_task(scene.cluster.changed(revision))
        await asyncio.sleep(0)
        given_up.cancel()
        await classes.tell("ADDED", priority_class("silver", 11))
        await asyncio.gather(*waiting)
        assert set(scene.state.classes) == {"gold", "silver"}
        assert given_up.cancelled()


async def test_relisting_finds_what_a_watch_has_not_told(tmp_path: Path) -> None:
    """A new leader requests a list of its own; until it is complete, readers see the former objects."""
    classes = Resource(10, priority_class("gold", 5), priority_class("tin", 6))
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        observed: list[tuple[str | None, str | None]] = []
        scene.state.observe(lambda before, after: observed.append((_name(before), _name(after))))
        kept = scene.state.classes["gold"]
        classes.objects = {"gold": priority_class("gold", 5), "silver": priority_class("silver", 11)}
        classes.version = 12
        await classes.refuse(503, "ServiceUnavailable")
        relisting = asyncio.create_task(scene.cluster.catch_up((Kind.PRIORITY_CLASS,)))
        await scene.until(lambda: any("watch failed" in event for event in scene.events()))
        assert scene.cluster.synced
        assert not relisting.done()
        assert set(scene.state.classes) == {"gold", "tin"}
        classes.allow()
        scene.time.advance(1.0)
        await relisting
        assert scene.state.classes["gold"] is kept
        assert observed == [(None, "silver"), ("tin", None)]
        await classes.tell("ADDED", priority_class("bronze", 13))
        await scene.until(lambda: "bronze" in scene.state.classes)


async def test_a_revoked_right_is_named_after_a_read(tmp_path: Path) -> None:
    """The cause is a revoked right or an expired credential; a failing server is no refusal."""
    classes = Resource(10, priority_class("gold", 5))
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        for code, reason in ((401, "Unauthorized"), (403, "Forbidden")):
            await classes.refuse(code, reason)
            await scene.until(lambda: scene.cluster.denied_resources() != [], step=1.0)
            (line,) = scene.cluster.denied_resources()
            assert line.startswith("priorityclasses.scheduling.k8s.io cannot be read: ")
            assert f"{code} {reason}" in line
            assert scene.cluster.waits() == []
            classes.allow()
            await scene.until(lambda: scene.cluster.denied_resources() == [], step=1.0)
        await classes.refuse(503, "ServiceUnavailable")
        await scene.until(lambda: "503" in str(scene.logged[-1]), step=1.0)
        assert scene.cluster.denied_resources() == []


def _name(obj: Any) -> str | None:
    return None if obj is None else str(obj.metadata.name)


async def test_ages_grow_while_nothing_is_heard(tmp_path: Path) -> None:
    classes = Resource(10)
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.until(lambda: scene.cluster.synced)
        scene.time.now += 7.0
        assert scene.cluster.ages() == {"priorityclasses.scheduling.k8s.io": 7.0}
        await classes.tell("ADDED", priority_class("gold", 11))
        await scene.until(lambda: bool(scene.state.classes))
        assert scene.cluster.ages() == {"priorityclasses.scheduling.k8s.io": 0.0}


async def test_an_api_that_appears_is_followed_and_its_field_counts(tmp_path: Path) -> None:
    fake = Fake()
    native = _without(fake, NATIVE)
    resources = {PODS: Resource(10, _member()), GROUPS: Resource(10, _group(7))}
    async with following(fake, tmp_path, (Kind.POD, Kind.POD_GROUP), resources) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert not scene.serves_native()
        assert scene.state.unread["PodGroup"] == "not served by this cluster"
        assert scene.state.referenced_groups() == {}
        fake.resources |= native
        await scene.look()
        await scene.until(lambda: scene.cluster.synced and TRAIN in scene.state.groups)
        assert scene.serves_native()
        assert set(scene.state.members(TRAIN)) == {"train-0"}
        assert "PodGroup" not in scene.state.unread


async def test_an_api_that_will_be_there_is_looked_for_each_second(tmp_path: Path) -> None:
    """After custom resources are installed the wait is short; then discovery is rare again."""
    fake = Fake()
    ours = "/apis/scheduling.podium.dev/v1beta1"
    resources = {GROUPS: Resource(10, _group(7)), f"{ours}/podgroups": Resource(10)}
    async with following(fake, tmp_path, (Kind.POD_GROUP,), resources, groups=(PODIUM_GROUP,)) as scene:
        await scene.cluster.ready()
        await scene.until(lambda: scene.time.waits == [1.0])
        fake.resources[ours] = [("podgroups", "PodGroup", True)]
        scene.time.advance(1.0)
        await scene.until(lambda: scene.time.waits == [1.0, 10.0])
        await scene.cluster.ready()
        assert set(scene.cluster.ages()) == {f"podgroups.{group}" for group in (NATIVE_GROUP, PODIUM_GROUP)}


async def test_an_api_that_went_takes_its_objects_along(tmp_path: Path) -> None:
    """Objects are removed when discovery misses them and the resource is unknown.

    Either alone may be a stale server.
    """
    resources = {PODS: Resource(10, _member()), GROUPS: Resource(10, _group(7))}
    async with following(Fake(), tmp_path, (Kind.POD, Kind.POD_GROUP), resources) as scene:
        await scene.until(lambda: scene.cluster.synced)
        _without(scene.fake, NATIVE)
        for _ in range(3):
            await scene.look()
        assert set(scene.state.groups) == {TRAIN}
        assert scene.serves_native()
        await resources[GROUPS].refuse(404, "NotFound")
        await scene.until(lambda: not scene.state.groups, step=1.0)
        assert not scene.serves_native()
        assert scene.state.referenced_groups() == {}
        assert scene.state.unread["PodGroup"] == "not served by this cluster"
        assert list(scene.cluster.ages()) == ["pods"]
        assert scene.events()[-1] == "api went away podgroups.scheduling.k8s.io"


@pytest.mark.parametrize("native", [True, False], ids=["native", "Podium's"])
async def test_composite_groups_come_and_go_with_their_api(native: bool, tmp_path: Path) -> None:
    fake = Fake()
    before = dict(fake.resources)
    composite = _composite(native=native, parent="root")
    composites = Resource(10, composite)
    key, root = (GroupKey(native, "team", name, composite=True) for name in ("inner", "root"))
    resources = {PODS: Resource(10, _member()), COMPOSITES[native]: composites}
    async with following(fake, tmp_path, (Kind.POD, Kind.COMPOSITE_GROUP), resources) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert scene.state.unread["CompositePodGroup"] == "not served by this cluster"
        fake.resources |= _serving_composites(native=native)
        await scene.look()
        await scene.until(lambda: scene.cluster.synced and key in scene.state.composites)
        assert set(scene.state.children[root]) == {key}
        assert "CompositePodGroup" not in scene.state.unread
        fake.resources = before
        await composites.refuse(404, "NotFound")
        await scene.until(lambda: not scene.state.composites, step=1.0)
        assert scene.state.children == {}
        assert scene.state.unread["CompositePodGroup"] == "not served by this cluster"


async def test_composite_groups_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    """A process goes on without them, and logs each refusal once. The objects of the other API are read."""
    fake = Fake()
    fake.resources |= _serving_composites(native=True) | _serving_composites(native=False)
    denied = Resource(10, _composite(native=True))
    await denied.refuse(403, "Forbidden")
    resources = {COMPOSITES[True]: denied, COMPOSITES[False]: Resource(10, _composite(native=False))}
    kinds = (Kind.COMPOSITE_GROUP,)
    async with following(fake, tmp_path, kinds, resources, optional=kinds) as scene:
        await scene.until(lambda: scene.cluster.synced and bool(scene.state.composites))
        await scene.until(lambda: len(_asked(scene.fake, COMPOSITES[True])) >= 3, step=0.1)
        assert set(scene.state.composites) == {GroupKey(False, "team", "inner", composite=True)}
        assert scene.state.unread["CompositePodGroup"] == (
            "missing permission: list and watch compositepodgroups "
            '(API group "scheduling.k8s.io") cluster-wide'
        )
        failed = "watch failed compositepodgroups.scheduling.k8s.io"
        assert scene.events().count(failed) == 1
        denied.allow()
        await scene.until(lambda: len(scene.state.composites) == 2, step=0.1)
        assert "CompositePodGroup" not in scene.state.unread


async def test_one_look_that_misses_an_api_changes_nothing(tmp_path: Path) -> None:
    """A server that has just started may not list all its APIs."""
    resources = {GROUPS: Resource(10, _group(7))}
    async with following(Fake(), tmp_path, (Kind.POD_GROUP,), resources) as scene:
        await scene.until(lambda: scene.cluster.synced)
        revision = scene.state.revision
        native = _without(scene.fake, NATIVE)
        await scene.look()
        scene.fake.resources |= native
        for _ in range(3):
            await scene.look()
        assert scene.state.revision == revision
        assert scene.cluster.synced
        assert scene.events() == ["api found podgroups.scheduling.k8s.io"]


async def test_a_better_version_is_read_instead_without_a_gap(tmp_path: Path) -> None:
    """A cluster is upgraded while the process runs."""
    fake = Fake()
    newer = _without(fake, ["/apis/scheduling.k8s.io/v1beta1"])
    resources = {OLDER_GROUPS: Resource(10, _group(7, "v1alpha3")), GROUPS: Resource(10, _group(7))}
    await resources[GROUPS].refuse(503, "ServiceUnavailable")
    async with following(fake, tmp_path, (Kind.POD_GROUP,), resources) as scene:
        await scene.until(lambda: scene.cluster.synced)
        assert scene.state.groups[TRAIN].ref.apiVersion == "scheduling.k8s.io/v1alpha3"
        fake.resources |= newer
        await scene.look()
        await scene.until(lambda: "watch failed podgroups.scheduling.k8s.io" in scene.events())
        assert set(scene.state.groups) == {TRAIN}
        resources[GROUPS].allow()
        scene.time.advance(1.0)
        await scene.until(lambda: scene.cluster.synced)
        assert scene.state.groups[TRAIN].ref.apiVersion == "scheduling.k8s.io/v1beta1"


async def test_a_kind_we_may_not_read_is_named_until_we_may(tmp_path: Path) -> None:
    classes = Resource(10, priority_class("gold", 5))
    await classes.refuse(403, "Forbidden")
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.until(lambda: "watch failed" in " ".join(scene.events()))
        assert not scene.cluster.synced
        assert scene.state.unread["PriorityClass"] == (
            'missing permission: list and watch priorityclasses (API group "scheduling.k8s.io") cluster-wide'
        )
        classes.allow()
        scene.time.advance(1.0)
        await scene.until(lambda: scene.cluster.synced)
        assert "PriorityClass" not in scene.state.unread


async def test_an_optional_kind_is_waited_for_until_it_is_denied(tmp_path: Path) -> None:
    """A process that is upgraded before its rights goes on without; it reads the kind once it may."""
    pods, classes = Resource(10, _member()), Resource(10, priority_class("gold", 5))
    await classes.refuse(503, "ServiceUnavailable")
    kinds, resources = (Kind.POD, Kind.PRIORITY_CLASS), {PODS: pods, CLASSES: classes}
    async with following(Fake(), tmp_path, kinds, resources, optional=(Kind.PRIORITY_CLASS,)) as scene:
        await scene.until(lambda: bool(scene.state.pods) and "watch failed" in " ".join(scene.events()))
        assert len(scene.cluster.waits()) == 1
        await classes.refuse(403, "Forbidden")
        await scene.until(lambda: scene.cluster.synced, step=1.0)
        assert (scene.cluster.waits(), scene.cluster.denied_resources()) == ([], [])
        assert scene.state.unread["PriorityClass"].startswith("missing permission: list and watch priorityc")
        relisting = asyncio.create_task(scene.cluster.catch_up(kinds))
        await scene.until(relisting.done, step=1.0)
        await relisting
        classes.allow()
        await scene.until(lambda: "gold" in scene.state.classes, step=1.0)
        assert "PriorityClass" not in scene.state.unread
        await classes.refuse(403, "Forbidden")
        await scene.until(lambda: "PriorityClass" in scene.state.unread, step=1.0)
        assert scene.cluster.synced
        assert scene.cluster.denied_resources() == []
        assert set(scene.state.classes) == {"gold"}


async def test_a_resource_denied_though_it_is_listed_stays(tmp_path: Path) -> None:
    """Only discovery removes an API; it is requested soon, not at once."""
    classes = Resource(10, priority_class("gold", 5))
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.until(lambda: scene.cluster.synced)
        await classes.refuse(404, "NotFound")
        await scene.until(lambda: 0.2 in scene.time.waits)
        scene.time.advance(0.2)
        await scene.until(lambda: 1.0 in scene.time.waits)
        looks = scene.looks
        scene.time.advance(1.0)
        await scene.until(lambda: scene.looks > looks)
        assert set(scene.state.classes) == {"gold"}


async def test_a_server_that_is_not_up_yet_is_waited_for(tmp_path: Path) -> None:
    fake = Fake()
    up = False

    async def version(_: Any) -> Any:
        return web.json_response({"gitVersion": "v1.37.0"}) if up else status(500, "InternalError", "not yet")

    fake.answers["/version"] = version
    async with following(fake, tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: Resource(10)}) as scene:
        await scene.until(lambda: len(scene.time.waits) == 4, step=0.2)
        up = True
        await scene.until(lambda: scene.cluster.synced, step=1.0)
        assert scene.time.waits[:4] == [0.2, 0.4, 0.8, 1.6]
        assert scene.events()[0] == "discovery failed"
        assert scene.events().count("discovery failed") == 1


def _served(group: str, version: str) -> Served:
    api_version = f"{group}/{version}"
    return Served(api_version, "PodGroup", READS[api_version, "PodGroup"], "podgroups", namespaced=True)


NEW, OLD = _served(NATIVE_GROUP, "v1beta1"), _served(NATIVE_GROUP, "v1alpha3")
OURS = _served("scheduling.podium.dev", "v1beta1")
NONE = Discovery("v1.37.0", [], {"PodGroup": "not served by this cluster"})

# Successive discovery answers, and the accepted kinds after the last one.
LOOKS: list[tuple[str, list[list[Served]], list[Served]]] = [
    ("seen once is there", [[], [NEW]], [NEW]),
    ("missed once is still there", [[NEW], []], [NEW]),
    ("missed twice is gone", [[NEW], [], []], []),
    ("missed, seen, missed is there", [[NEW], [], [NEW], []], [NEW]),
    ("gone and back", [[NEW], [], [], [NEW]], [NEW]),
    ("another version is the same API", [[NEW], [OLD]], [OLD]),
    ("one of two groups", [[NEW, OURS], [OURS], [OURS]], [OURS]),
]


@pytest.mark.parametrize(("looks", "believed"), [row[1:] for row in LOOKS], ids=[row[0] for row in LOOKS])
def test_several_discoveries_are_merged(looks: list[list[Served]], believed: list[Served]) -> None:
    held, missed = None, frozenset[str]()
    for served in looks:
        now = NONE._replace(served=served, unread={} if served else NONE.unread)
        held, missed = settle(held, now, missed, frozenset())
    assert held is not None
    assert held.served == believed
    assert held.unread == ({} if believed else NONE.unread)


def test_a_served_group_is_present_despite_a_stale_discovery() -> None:
    """An aggregator that lags lists its own groups one by one."""
    held, missed = settle(None, NONE._replace(served=[NEW], unread={}), frozenset(), frozenset())
    for _ in range(3):
        held, missed = settle(held, NONE, missed, frozenset([NEW.resource]))
    assert (held.served, held.unread) == ([NEW], {})


async def test_a_server_that_has_not_started_is_not_believed(tmp_path: Path) -> None:
    """A first empty answer is not accepted, nor a single later one that an API is gone."""
    fake = Fake()
    ready = False

    async def readyz(_: Any) -> Any:
        return web.Response(status=200 if ready else 500, text="[-]poststarthook failed")

    fake.answers["/readyz"] = readyz
    classes = _without(fake, ["/apis/scheduling.k8s.io/v1"])
    resources = {CLASSES: Resource(10, priority_class("gold", 5))}
    async with following(fake, tmp_path, (Kind.PRIORITY_CLASS,), resources) as scene:
        await scene.until(lambda: len(scene.time.waits) == 3, step=0.2)
        assert scene.cluster.discovery is None
        assert scene.logged[0][1]["error"].endswith("GET /readyz: 500: [-]poststarthook failed")
        ready = True
        fake.resources |= classes
        await scene.until(lambda: scene.cluster.synced, step=1.0)
        ready = False
        _without(fake, ["/apis/scheduling.k8s.io/v1"])
        await resources[CLASSES].refuse(404, "NotFound")
        logged = len(scene.logged)
        await scene.until(lambda: "discovery failed" in scene.events()[logged:], step=1.0)
        for _ in range(3):
            await scene.look()
        assert set(scene.state.classes) == {"gold"}


async def test_an_exception_of_an_observer_stops_no_other(tmp_path: Path) -> None:
    """The exception is counted and logged with the object; other observers run, and the watch continues."""
    classes = Resource(10)
    observed: list[str | None] = []

    def fails(_before: Any, after: Any) -> None:
        if after is not None and after.metadata.name == "gold":
            raise ZeroDivisionError("a bug")

    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        scene.state.observe(fails)
        scene.state.observe(lambda _before, after: observed.append(_name(after)))
        await classes.tell("ADDED", priority_class("gold", 11))
        await classes.tell("ADDED", priority_class("silver", 12))
        await scene.until(lambda: "silver" in scene.state.classes)
        assert observed == ["gold", "silver"]
        assert "gold" in scene.state.classes
        assert scene.cluster.observer_errors == 1
        ((_, fields),) = [each for each in scene.logged if each[0] == "observer failed: a bug"]
        assert (fields["kind"], fields["name"]) == ("PriorityClass", "gold")
        assert fields["error"].endswith("ZeroDivisionError: a bug\n")


async def test_a_bug_with_every_object_does_not_fill_the_log(tmp_path: Path) -> None:
    """All exceptions are counted; some tracebacks are logged at once, and then one a minute."""
    classes = Resource(10)

    def fails(_before: Any, _after: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS,), {CLASSES: classes}) as scene:
        await scene.cluster.ready()
        scene.state.observe(fails)
        for number in range(100):
            await classes.tell("ADDED", priority_class(f"c{number}", 11 + number))
        await scene.until(lambda: scene.cluster.observer_errors == 100)
        assert scene.events().count("observer failed: a bug") == 20
        scene.time.advance(60.0)
        await classes.tell("ADDED", priority_class("last", 200))
        await scene.until(lambda: scene.cluster.observer_errors == 101)
        assert scene.events().count("observer failed: a bug") == 21


async def test_a_bug_in_following_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource is requested repeatedly, and the others continue."""
    resources = {CLASSES: Resource(10, priority_class("gold", 5)), GROUPS: Resource(10, _group(7))}
    bugs = 3
    take = Reflector._take_bookmark

    def fails(follower: Reflector, identity: Any, most: int | None) -> None:
        nonlocal bugs
        if follower._reader.served.kind == "PodGroup" and bugs:
            bugs -= 1
            raise ZeroDivisionError("a bug")
        take(follower, identity, most)

    monkeypatch.setattr(Reflector, "_take_bookmark", fails)
    async with following(Fake(), tmp_path, (Kind.PRIORITY_CLASS, Kind.POD_GROUP), resources) as scene:
        await scene.until(lambda: "gold" in scene.state.classes)
        await scene.until(lambda: scene.cluster.synced, step=0.1)
        assert set(scene.state.groups) == {TRAIN}
        assert scene.events().count("watch failed: a bug podgroups.scheduling.k8s.io") == 3
