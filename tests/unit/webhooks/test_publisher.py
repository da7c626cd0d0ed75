"""The publisher with faults of an API server that a real one does not show on request."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.rules.policy import Policy
from podium.webhooks.publisher import BundlePublisher
from podium.webhooks.registration import Endpoint, Options


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
