"""The reconciler on real servers: classes, groups and pods are created, changed and deleted in every order.

Each scenario runs three times: with native groups of 1.36 and 1.37, and with Podium's on a server whose gates
are off. After each, every write is compared with the cluster at its time.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.support.controllers.history import History
from tests.support.controllers.running import (
    POLICY,
    PRIORITY,
    Controller,
    Place,
    Space,
    conditions,
    configuration,
    drop_class,
    new_class,
    place,
    places,
    running,
    set_default,
)
from tests.support.waiting import until

pytestmark = pytest.mark.server

LOW, HIGH, TIMID = "orders-low", "orders-high", "orders-timid"
NODE = {"nodeName": "nowhere"}


@pytest.fixture(scope="module", params=places(__name__))
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Yield a server of each kind, with the classes that the scenarios name."""
    with place(request.param) as made:
        new_class(made.server, LOW, 100)
        new_class(made.server, HIGH, 1000)
        new_class(made.server, TIMID, 100, preemptionPolicy="Never")
        yield made


@pytest.fixture(scope="module")
def controller(where: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """Yield one process for all scenarios of a server."""
    folder = tmp_path_factory.mktemp("controller")
    both = configuration(folder, preemptionPolicyCondition=True)
    with running(where.server, folder / "one", both) as started:
        yield started


@pytest.fixture
def space(where: Place, controller: Controller) -> Iterator[Space]:
    """Yield a namespace; afterwards check that no write in it was wrong, and that no bug was logged."""
    made = Space(where)
    with History(made).running() as history:
        yield made
        assert history.problems() == []
    assert "Traceback" not in controller.log


Story = Callable[[Space], None]
STORIES: dict[str, Story] = {}


def story(told: Story) -> Story:
    """Add a scenario to the table."""
    STORIES[told.__name__] = told
    return told


@story
def pods_before_their_group(space: Space) -> None:
    space.pod("same", "gang", HIGH)
    space.pod("other", "gang", LOW)
    space.group("gang", HIGH)
    found = space.expect("gang", "True", "PriorityMismatch")
    assert "1 of 2 pods does not have priority 1000: 100 (other)" in found.message


@story
def group_before_its_pods(space: Space) -> None:
    space.group("gang", HIGH)
    space.pod("same", "gang", HIGH)
    space.pod("other", "gang", LOW)
    space.expect("gang", "True", "PriorityMismatch")


@story
def class_recreated_between(space: Space) -> None:
    """The class name has had two integers, and the message names both."""
    name = f"{space.name}-again"
    new_class(space.server, name, 7)
    space.group("gang", name)
    drop_class(space.server, name)
    new_class(space.server, name, 8)
    space.pod("late", "gang", name)
    found = space.expect("gang", "True", "PriorityMismatch")
    assert f"PriorityClass {name} had another value" in found.message
    drop_class(space.server, name)


@story
def default_flipped_between(space: Space) -> None:
    """The group was created without a default class, its pods with one."""
    name = f"{space.name}-default"
    new_class(space.server, name, 9)
    space.group("gang")
    set_default(space.server, name, default=True)
    try:
        space.pod("late", "gang")
        found = space.expect("gang", "True", "PriorityMismatch")
        assert f"{name} became the default after the group was created without a class" in found.message
    finally:
        set_default(space.server, name, default=False)
        drop_class(space.server, name)


@story
def mismatched_pod_finishes(space: Space) -> None:
    space.group("gang", HIGH)
    for name, phase in (("ends-well", "Succeeded"), ("ends-badly", "Failed")):
        space.pod(name, "gang", LOW)
        space.expect("gang", "True", "PriorityMismatch")
        space.finish(name, phase)
        space.expect("gang", "False", "NoMembers")


@story
def mismatched_pod_is_deleted_at_once(space: Space) -> None:
    space.group("gang", HIGH)
    space.pod("same", "gang", HIGH)
    space.pod("other", "gang", LOW)
    space.expect("gang", "True", "PriorityMismatch")
    space.end("other")
    space.expect("gang", "False", "PrioritiesMatch")


@story
def mismatched_pod_is_deleted_with_grace(space: Space) -> None:
    """A terminating pod is named and causes no divergence."""
    space.group("gang", HIGH)
    space.pod("same", "gang", HIGH)
    space.pod("other", "gang", LOW, **NODE)
    space.expect("gang", "True", "PriorityMismatch")
    space.remove("other")
    found = space.expect("gang", "False", "PrioritiesMatch")
    assert "Terminating and different: other." in found.message
    space.end("other")
    until(lambda: "other" not in space.conditions("gang")[PRIORITY].message, "a missing pod is not named")


@story
def group_is_replaced_under_its_name(space: Space) -> None:
    """The members belong to the new group, which has none of the old one's conditions."""
    space.group("gang", LOW)
    space.pod("member", "gang", HIGH)
    first = space.expect("gang", "True", "PriorityMismatch")
    space.remove_group("gang")
    space.group("gang", HIGH)
    space.group("witness", HIGH)
    space.pod("other", "witness", LOW)
    space.expect("witness", "True", "PriorityMismatch")
    assert space.conditions("gang") == {}
    space.remove_group("gang")
    space.group("gang", LOW)
    assert space.expect("gang", "True", "PriorityMismatch").since >= first.since


@story
def group_is_deleted(space: Space) -> None:
    """The group's pods remain: no condition is written, and our finalizer is removed after the pods."""
    space.group("gang", HIGH)
    space.pod("other", "gang", LOW)
    space.expect("gang", "True", "PriorityMismatch")
    space.ask("DELETE", space.groups_path("gang"))
    space.end("other")
    if space.place.native:
        space.remove_group("gang")
    gone = space.groups_path("gang")
    until(lambda: space.server.request("GET", gone)[0] == 404, "the group is gone")


@story
def pods_are_recreated(space: Space) -> None:
    """Pods are replaced one by one under their names, as in a rollout: True until the last, then False."""
    names = [f"worker-{number}" for number in range(3)]
    space.group("gang", HIGH)
    for name in names:
        space.pod(name, "gang", LOW)
    space.expect("gang", "True", "PriorityMismatch")
    for name in names:
        space.end(name)
        space.pod(name, "gang", HIGH)
    space.expect("gang", "False", "PrioritiesMatch")


@story
def class_is_deleted(space: Space) -> None:
    """Integers are stored: the group stays divergent, and the message still has the names."""
    name = f"{space.name}-goes"
    new_class(space.server, name, 11)
    space.group("gang", HIGH)
    space.pod("other", "gang", name)
    found = space.expect("gang", "True", "PriorityMismatch")
    drop_class(space.server, name)
    space.group("witness", HIGH)
    space.pod("differs", "witness", LOW)
    space.expect("witness", "True", "PriorityMismatch")
    assert space.conditions("gang")[PRIORITY] == found


@story
def preemption_policies_differ(space: Space) -> None:
    """Equal integers, and one member with preemptionPolicy Never."""
    space.group("gang", LOW)
    space.pod("bold", "gang", LOW)
    space.pod("timid", "gang", TIMID)
    space.expect("gang", "True", "PreemptionPolicyMismatch", axis=POLICY)
    assert PRIORITY not in space.conditions("gang")
    space.end("timid")
    space.expect("gang", "False", "PreemptionPoliciesMatch", axis=POLICY)


@story
def both_axes_at_once(space: Space) -> None:
    """Each of our conditions leaves the other unchanged."""
    space.group("gang", HIGH)
    space.pod("bold", "gang", HIGH)
    space.pod("timid", "gang", TIMID)
    space.expect("gang", "True", "PriorityMismatch")
    space.expect("gang", "True", "PreemptionPolicyMismatch", axis=POLICY)
    space.end("timid")
    space.expect("gang", "False", "PrioritiesMatch")
    space.expect("gang", "False", "PreemptionPoliciesMatch", axis=POLICY)


@story
def groups_that_agree_are_left_alone(space: Space) -> None:
    """A group that never diverged has no condition of ours."""
    space.group("calm", HIGH)
    space.pod("same", "calm", HIGH)
    space.group("divided", HIGH)
    space.pod("other", "divided", LOW)
    space.expect("divided", "True", "PriorityMismatch")
    assert space.conditions("calm") == {}


@story
def group_without_its_integer(space: Space) -> None:
    """Podium's webhook was down when the group was created; an API server always resolves."""
    made = space.group("gang", HIGH, resolve=False)
    if space.place.native:
        assert made["spec"]["priority"] == 1000
        return
    found = space.expect("gang", "Unknown", "GroupUnresolved")
    assert HIGH in found.message
    space.pod("member", "gang", HIGH)
    space.group("witness", LOW)
    space.pod("differs", "witness", HIGH)
    space.expect("witness", "True", "PriorityMismatch")
    assert space.conditions("gang")[PRIORITY] == found


@story
def every_flip_is_one_event(space: Space) -> None:
    space.group("gang", HIGH)
    space.pod("same", "gang", HIGH)
    space.pod("other", "gang", LOW)
    space.expect("gang", "True", "PriorityMismatch")
    space.end("other")
    space.expect("gang", "False", "PrioritiesMatch")
    path = f"/apis/events.k8s.io/v1/namespaces/{space.name}/events"

    def told() -> list[tuple[str, str, str]]:
        return sorted(
            (each["type"], each["reason"], each["regarding"]["name"])
            for each in space.ask("GET", path)["items"]
        )

    wanted = [("Normal", "PodsMatchPriority", "gang"), ("Warning", "PodsNotMatchingPriority", "gang")]
    until(lambda: told() == wanted, f"both events: {told()}")


@pytest.mark.parametrize("name", STORIES)
def test_order(name: str, space: Space) -> None:
    """The condition is true after any order of events."""
    STORIES[name](space)


@pytest.mark.parametrize("edit", ["says otherwise", "takes it away", "rewords it"])
def test_a_users_change_of_the_condition_is_undone(edit: str, where: Place, controller: Controller) -> None:
    """The conditions of others on the same group stay."""
    space = Space(where)
    theirs = {"type": "Mine", "status": "True", "reason": "Because", "message": "of me"}
    space.group("gang", HIGH)
    space.pod("other", "gang", LOW)
    found = space.expect("gang", "True", "PriorityMismatch")
    stored = space.ask("GET", space.groups_path("gang"))["status"]["conditions"]
    (ours,) = (each for each in stored if each["type"] == PRIORITY)
    changed = {
        "says otherwise": [{**ours, "status": "False", "reason": "Fine"}],
        "takes it away": [],
        "rewords it": [{**ours, "message": "nothing to see"}],
    }[edit]
    mine = {**theirs, "lastTransitionTime": found.since}
    path = f"{space.groups_path('gang')}/status"
    edited = space.ask("PATCH", path, {"status": {"conditions": [*changed, mine]}})
    assert PRIORITY not in conditions(edited) or conditions(edited)[PRIORITY] != found

    def undone() -> bool:
        there = space.conditions("gang")
        return PRIORITY in there and there[PRIORITY][:3] == found[:3]

    until(undone, f"it is as it was:\n{controller.log}")
    assert space.conditions("gang")["Mine"].message == "of me"
