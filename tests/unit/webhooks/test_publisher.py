"""The publisher with faults of an API server that a real one does not show on request."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.rules.policy import Policy
from podium.webhooks.publisher import BundlePublisher
from podium.webhooks.registration import Endpoint, Options, empty_configurations


class Odd:
    """An API server that accepts everything, and answers every GET with one document or refusal."""

    server = "https://odd"

    def __init__(self, answer: dict[str, Any] | int) -> None:
        self.answer = answer
        self.applied: list[str] = []
        self.slept = 0.0

    async def get(self, path: str) -> bytes:
        if isinstance(self.answer, int):
            raise RefusedError(self.server, f"GET {path}", self.answer, "", "no")
        return json.dumps(self.answer).encode()

    async def apply(self, path: str, document: Any, *, manager: str, force: bool) -> bytes:
        assert (manager, force) == ("podium-webhook", True)
        assert path.endswith(document["metadata"]["name"])
        self.applied.append(path)
        return b"{}"

    def log_event(self, event: str, fields: Mapping[str, object]) -> None:
        raise AssertionError(f"{event}: {fields}")

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


class Turned:
    """An API server with the objects of an installation by Service, whose Deployment is on or off.

    `writes` has the kinds of configuration that were written, in order, and the sleeps between them.
    """

    server = "https://turned"

    def __init__(self, *, off: bool) -> None:
        self.off = off
        self.writes: list[str | float] = []
        self.objects: dict[str, dict[str, Any]] = {}
        for configuration in empty_configurations():
            plural = f"{configuration['kind'].lower()}s"
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}/podium"
            metadata = {**configuration["metadata"], "generation": 1}
            self.objects[path] = {**configuration, "metadata": metadata, "webhooks": []}

    async def get(self, path: str) -> bytes:
        if "/deployments/" in path:
            deployment = {"metadata": {}, "spec": {"replicas": 0 if self.off else 1}}
            return json.dumps({**deployment, "status": {"availableReplicas": 1}}).encode()
        if path not in self.objects:
            raise RefusedError(self.server, f"GET {path}", 404, "NotFound", "not found")
        return json.dumps(self.objects[path]).encode()

    async def send(self, _method: str, path: str, patch: list[dict[str, Any]], **_query: str) -> bytes:
        test, change = patch
        stored = self.objects[path]
        assert test["value"] == stored["metadata"]["generation"]
        stored["metadata"]["generation"] += 1
        stored["webhooks"] = change["value"]
        self.writes.append(stored["kind"].removesuffix("WebhookConfiguration"))
        return b"{}"

    async def sleep(self, seconds: float) -> None:
        self.writes.append(seconds)


def replica(turned: Turned) -> BundlePublisher:
    return BundlePublisher(
        cast("Connection", turned),
        Endpoint(service=("podium-system", "podium-webhook")),
        Options(),
        Policy(),
        log_event=lambda _event, _fields: None,
        deployment=("podium-system", "podium-webhook"),
        sleep=turned.sleep,
    )


async def _closed(turned: Turned) -> None:
    """Register until the registration fails closed, without the custom resources."""
    ours = replica(turned)
    for _ in range(3):
        if not await ours.published(None):
            await ours.publish(None)
    turned.off = True
    turned.writes.clear()


async def test_the_mutating_webhooks_are_registered_before_the_validating_ones() -> None:
    """An API server that knew the validating ones alone would refuse groups that were not mutated."""
    turned = Turned(off=False)
    ours = replica(turned)
    assert not await ours.published(None)
    await ours.publish(None)
    assert turned.writes == ["Mutating", 2.0, "Validating"]


@pytest.mark.parametrize("how", ["at the end", "at its turn", "at the end, after another replica"])
async def test_the_validating_webhooks_are_removed_before_the_mutating_ones(how: str) -> None:
    turned = Turned(off=False)
    await _closed(turned)
    if "another" in how:
        *_, validating = turned.objects.values()
        validating["webhooks"] = []
    ours = replica(turned)
    if how == "at its turn":
        assert not await ours.published(None)
        await ours.publish(None)
    else:
        assert await ours.withdraw()
    assert turned.writes == ([] if "another" in how else ["Validating"]) + [2.0, "Mutating"]
    assert [document["webhooks"] for document in turned.objects.values()] == [[], []]


def publisher(odd: Odd) -> BundlePublisher:
    endpoint = Endpoint(url="https://127.0.0.1:9443")
    return BundlePublisher(
        cast("Connection", odd), endpoint, Options(), Policy(), log_event=odd.log_event, sleep=odd.sleep
    )


@pytest.mark.parametrize("status", [{}, {"conditions": None}, {"conditions": []}])
async def test_a_custom_resource_that_is_never_served_is_told(status: dict[str, Any]) -> None:
    """No webhook is registered before: the API server would call it for kinds that cannot be written."""
    metadata = {"name": "x", "resourceVersion": "1"}
    odd = Odd({"kind": "CustomResourceDefinition", "metadata": metadata, "spec": {}, "status": status})
    with pytest.raises(PodiumError, match="not served 30 s after apply: see its conditions"):
        await publisher(odd).publish(b"PEM")
    assert odd.slept == pytest.approx(30)
    assert [path.rpartition("/")[2] for path in odd.applied] == ["podgroups.scheduling.podium.dev"]


async def test_a_denied_object_is_not_treated_as_missing() -> None:
    odd = Odd(403)
    with pytest.raises(RefusedError) as refused:
        await publisher(odd).published(b"PEM")
    assert refused.value.code == 403
    with pytest.raises(RefusedError):
        await publisher(odd).publish(b"PEM")
    assert odd.applied == []
