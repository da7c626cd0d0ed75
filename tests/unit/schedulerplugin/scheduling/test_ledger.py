"""The checker finds violations: a node over its capacity, a victim that was not marked."""

from typing import Any

import pytest
from tests.support.controllers.history import Seen
from tests.support.proxy import Call
from tests.support.scheduling.ledger import MARKED, accepted, over_commits, unannounced


def node(version: int, cpu: str = "4") -> Seen:
    return Seen(
        version,
        "ADDED",
        {"metadata": {"name": "n", "uid": "n"}, "spec": {}, "status": {"allocatable": {"cpu": cpu}}},
    )


def pod(
    version: int, name: str, cpu: str = "2", *, what: str = "MODIFIED", on: str = "n", **fields: Any
) -> Seen:
    """Return a version of a pod; `fields` are of its status, `going` means that it is being deleted."""
    owner = {"kind": "Job", "name": "job", "controller": True}
    metadata: dict[str, Any] = {"name": name, "uid": name, "namespace": "ns", "ownerReferences": [owner]}
    if fields.pop("going", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if fields.pop("marked", False):
        fields["conditions"] = [dict(zip(("type", "status", "reason"), MARKED, strict=True))]
    spec = {"nodeName": on, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    return Seen(version, what, {"metadata": metadata, "spec": spec, "status": fields})


OVER: dict[str, tuple[list[Seen], int]] = {
    "as much as there is": ([pod(2, "a"), pod(3, "b")], 0),
    "more than there is": ([pod(2, "a"), pod(3, "b"), pod(4, "c")], 1),
    "pods that wait": ([pod(2, "a"), pod(3, "b"), pod(4, "c", on="")], 0),
    "one that is only on its way out": ([pod(2, "a"), pod(3, "b"), pod(4, "b", going=True), pod(5, "c")], 1),
    "one that is gone": ([pod(2, "a"), pod(3, "b"), pod(4, "b", what="DELETED"), pod(5, "c")], 0),
    "one that is done": ([pod(2, "a"), pod(3, "b"), pod(4, "b", phase="Succeeded"), pod(5, "c")], 0),
    "in the order of their versions": (
        [pod(5, "c"), pod(4, "b", what="DELETED"), pod(3, "b"), pod(2, "a")],
        0,
    ),
    "a node that does not exist": ([pod(2, "a", on="gone")], 1),
}


@pytest.mark.parametrize("name", OVER)
def test_over_commits(name: str) -> None:
    pods, count = OVER[name]
    assert len(over_commits(pods, [node(1)])) == count


UNANNOUNCED: dict[str, tuple[list[Seen], list[str], int]] = {
    "marked and deleted": (
        [pod(1, "a"), pod(2, "a", marked=True), pod(3, "a", marked=True, going=True)],
        ["a"],
        0,
    ),
    "marked and gone": ([pod(2, "a", marked=True), pod(3, "a", marked=True, what="DELETED")], ["a"], 0),
    "not marked": ([pod(1, "a"), pod(2, "a", going=True)], ["a"], 1),
    "marked too late": (
        [pod(1, "a"), pod(2, "a", going=True), pod(3, "a", going=True, marked=True)],
        ["a"],
        1,
    ),
    "marked after another client's deletion": (
        [pod(1, "other"), pod(2, "other", going=True), pod(3, "other", going=True, marked=True)],
        ["other"],
        0,
    ),
    "never marked, deleted by another client": ([pod(2, "other", going=True)], ["other"], 1),
    "deleted by another client": ([pod(1, "a"), pod(2, "a", going=True)], [], 0),
    "twice": ([pod(2, "a", marked=True, going=True)], ["a", "a"], 1),
}


@pytest.mark.parametrize("name", UNANNOUNCED)
def test_unannounced(name: str) -> None:
    pods, deletes, count = UNANNOUNCED[name]
    assert len(unannounced(pods, deletes, {"other"})) == count


def delete(uid: str, code: int = 200, *, lost: bool = False) -> Call:
    body = b'{"preconditions": {"uid": "%s"}}' % uid.encode()
    return Call("DELETE", f"/api/v1/namespaces/ns/pods/{uid}", {}, body, code=code, lost=lost)


ACCEPTED: dict[str, tuple[list[Call], list[str]]] = {
    "once": ([delete("a"), delete("b")], ["a", "b"]),
    "twice": ([delete("a"), delete("a")], ["a", "a"]),
    "repeated after a lost answer": ([delete("a", lost=True), delete("a")], ["a"]),
    "lost each time": ([delete("a", lost=True), delete("a", lost=True)], ["a"]),
    "repeated although the answer came": ([delete("a", lost=True), delete("a"), delete("a")], ["a", "a"]),
    "refused": ([delete("a", 409), delete("b", 0)], []),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    calls, uids = ACCEPTED[name]
    assert accepted(calls) == uids
