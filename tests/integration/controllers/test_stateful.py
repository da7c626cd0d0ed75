"""Random sequences of all changes that affect a group's priority, on real servers, checked in two ways.

When all is quiet the conditions are compared with the findings of `podium audit` of the cluster read at that
moment. Every earlier write is compared with the cluster at its time.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    precondition,
    rule,
)
from hypothesis.stateful import run_state_machine_as_test as run
from tests.support.controllers.history import History
from tests.support.controllers.running import (
    CLASSES,
    PRIORITY,
    Place,
    Space,
    drop_class,
    new_class,
    place,
    places,
    running,
    set_default,
)
from tests.support.waiting import until

from podium.answers.audits.run import audit_view
from podium.api.membership import GroupKey
from podium.cluster.state import ClusterState
from podium.documents.document import Document
from podium.documents.load import load_state
from podium.documents.split import split

pytestmark = pytest.mark.server

GROUPS = ("a", "b", "c")
WORDS = ("", "low", "high", "moving")
VALUES = st.integers(1, 4)
SETTINGS = settings(
    max_examples=5,
    stateful_step_count=60,
    deadline=None,
    # A run on a real server is not repeated exactly, so shrinking gains nothing.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module", params=places(__name__))
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Yield a server of each kind, with a reconciler for all sequences."""
    with place(request.param) as made, running(made.server, tmp_path_factory.mktemp("logs") / "one"):
        yield made


class Sequence(RuleBasedStateMachine):
    """A namespace with its own classes, under any sequence of changes."""

    where: Place
    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.stack = contextlib.ExitStack()
        self.space = Space(self.where)
        self.history = self.stack.enter_context(History(self.space).running())
        self.groups: set[str] = set()
        self.number = 0
        self.default = ""
        self.classes = set(WORDS[1:])

    def named(self, word: str) -> str:
        """Return the name of a class of this sequence."""
        return f"{self.space.name}-{word}" if word else ""

    @initialize(target=pods, words=st.lists(st.sampled_from(WORDS), min_size=9, max_size=9))
    def begin(self, words: list[str]) -> Any:
        """Start with every group and two members of each, which random steps would rarely reach."""
        for value, word in enumerate(sorted(self.classes), 1):
            new_class(self.space.server, self.named(word), value)
        members = []
        for name, *classes in zip(GROUPS, words[:3], words[3:6], words[6:], strict=True):
            self.make_group(name, classes[0])
            members += [self.make_pod(name, word, on_node=True) for word in classes[1:]]
        return multiple(*members)

    @rule(target=pods, group=st.sampled_from(GROUPS), word=st.sampled_from(WORDS), on_node=st.booleans())
    def make_pod(self, group: str, word: str, on_node: bool) -> str:
        self.number += 1
        name = f"pod-{self.number}"
        fields = {"nodeName": "nowhere"} if on_node else {}
        self.space.pod(name, group, self.named(word), **fields)
        return name

    @rule(name=consumes(pods), phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, name: str, phase: str) -> None:
        self.space.finish(name, phase)

    @rule(target=pods, name=consumes(pods), at_once=st.booleans())
    def delete(self, name: str, at_once: bool) -> Any:
        """Delete a member with a grace period; on a node it stays, terminating."""
        if at_once:
            self.space.end(name)
        else:
            self.space.remove(name)
        there = self.space.server.request("GET", self.space.pods_path(name))[0] == 200
        return name if there else multiple()

    @rule(name=st.sampled_from(GROUPS), word=st.sampled_from(WORDS))
    def make_group(self, name: str, word: str) -> None:
        """Create a group, or replace the existing one."""
        if name in self.groups:
            self.space.remove_group(name)
        self.space.group(name, self.named(word))
        self.groups.add(name)

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def delete_group(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.groups)))
        self.space.remove_group(name)
        self.groups.remove(name)

    @rule(value=VALUES)
    def recreate_class(self, value: int) -> None:
        """Create a class again, with the same name and perhaps another integer."""
        name = self.named("moving")
        default = self.default == "moving"
        drop_class(self.space.server, name)
        new_class(self.space.server, name, value, globalDefault=default)

    @rule(word=st.sampled_from(WORDS))
    def flip_default(self, word: str) -> None:
        if self.default:
            set_default(self.space.server, self.named(self.default), default=False)
        if word:
            set_default(self.space.server, self.named(word), default=True)
        self.default = word

    @precondition(lambda self: self.groups)
    @rule(data=st.data())
    def take_conditions(self, data: st.DataObject) -> None:
        """Remove the conditions, like a client that writes the whole status."""
        name = data.draw(st.sampled_from(sorted(self.groups)))
        path = f"{self.space.groups_path(name)}/status"
        self.history.excuse(self.space.ask("PATCH", path, {"status": {"conditions": None}}))

    @rule()
    def settle(self) -> None:
        """After the last change the conditions equal the audit's findings."""
        until(self.agrees, "conditions and audit agree")

    def agrees(self) -> bool:
        """Return whether the conditions agree with the objects read at one moment."""
        state = self.read()
        minor = self.space.server.release.minor
        found = audit_view(
            state, kubernetes=minor, chosen_by="the server", namespace=self.space.name
        ).findings
        divided = {each.object.name for each in found if each.rule == "pod-priority-differs"}
        true = set()
        for name in self.groups:
            key = GroupKey(self.where.native, self.space.name, name)
            statuses = [each.status for each in state.groups[key].conditions if each.type == PRIORITY]
            true |= {name for status in statuses if status == "True"}
        return true == divided & self.groups

    def read(self) -> ClusterState:
        """Read all objects, as from a dump."""
        paths = [self.space.groups_path(), self.space.pods_path(), CLASSES]
        documents: list[Document] = []
        for path in paths:
            documents += split(json.dumps(self.space.ask("GET", path)).encode(), path)
        return load_state(documents, strict=True).state

    def teardown(self) -> None:
        with self.stack:
            self.settle()
            if self.default:
                set_default(self.space.server, self.named(self.default), default=False)
            for word in self.classes:
                drop_class(self.space.server, self.named(word))
            assert self.history.problems() == []


def test_random_sequences_end_as_the_audit_says(where: Place) -> None:
    """The conditions are right on every server, in every order."""

    class Here(Sequence):
        pass

    Here.where = where
    run(Here, settings=SETTINGS)
