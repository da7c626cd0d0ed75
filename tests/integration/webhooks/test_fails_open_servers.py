"""Padding gets no pod past the rules of real API servers: with the policies alone, and the webhook alone."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.integration.webhooks.test_policies_servers import MERGE, install, pod
from tests.support.servers import Server, exclusive, in_turn
from tests.support.waiting import until
from tests.support.webhooks.recorder import Answer, send
from tests.support.webhooks.running import Running, running
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.groups import GROUP_LABEL, NATIVE_GROUP
from podium.rules.policy import Allowance, Policy
from podium.webhooks.policies import defaults
from podium.webhooks.registration import Options

pytestmark = pytest.mark.server

POLICY = Policy(allow=(Allowance(namespaces=("default",), pods=("cheap",)),))
FILE = (
    "apiVersion: config.podium.dev/v1\nkind: AdmissionPolicy\n"
    "allow: [{namespaces: [default], pods: [cheap]}]\n"
)
PODS = "/api/v1/namespaces/default/pods"
REFUSED = "may not use class gold"
FIXED = "may not be"


class Scene(NamedTuple):
    server: Server
    webhook: Running | None


@pytest.fixture(
    scope="module",
    params=[(minor, by) for minor in in_turn(__name__) for by in ("policy", "webhook")],
    ids="-".join,
)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yield a server on which one of the two reviews."""
    minor, by = request.param
    with exclusive(RELEASES[minor]) as server, contextlib.ExitStack() as stack:
        for name, value in (("gold", 100_000), ("cheap", 1)):
            made = {"metadata": {"name": name}, "value": value}
            assert server.request("POST", f"/apis/{NATIVE_GROUP}/v1/priorityclasses", made)[0] == 201
        webhook = None
        if by == "policy":
            install(server, defaults(POLICY, Options()))
        else:
            folder = tmp_path_factory.mktemp(minor)
            config = folder / "policy.yaml"
            config.write_text(FILE, encoding="utf-8")
            # A call without an answer is then an error, so it is not mistaken for a verdict.
            arguments = (f"--config={config}", "--on-failure=pods=Fail")
            webhook = stack.enter_context(running(server, folder, *arguments))
        make(server, "probe", 0)
        until(lambda: REFUSED in message(created(server, "x", 0, "gold")), "classes are judged")
        until(lambda: FIXED in message(labelled(server, "probe", "other")), "labels are judged")
        yield Scene(server, webhook)


def padded(name: str, size: int, class_name: str) -> dict[str, Any]:
    """Return a member whose review has six bytes for each of `size`."""
    document = pod({"labels": {GROUP_LABEL: "g"}}, priorityClassName=class_name)
    document["metadata"]["name"] = name
    document["spec"]["automountServiceAccountToken"] = False
    document["spec"]["containers"][0]["env"] = [{"name": "A", "value": "<" * size}]
    return document


def created(server: Server, name: str, size: int, class_name: str, query: str = "?dryRun=All") -> Answer:
    return judged(server, "POST", PODS + query, padded(name, size, class_name))


def make(server: Server, name: str, size: int) -> None:
    answer = created(server, name, size, "cheap", "")
    assert answer.code == 201, answer


def labelled(server: Server, name: str, label: str | None) -> Answer:
    change = {"metadata": {"labels": {GROUP_LABEL: label}}}
    return judged(server, "PATCH", f"{PODS}/{name}?dryRun=All", change, content_type=MERGE)


def judged(*arguments: Any, **more: Any) -> Answer:
    """Repeat a request until the webhook answers in time, because the machine may be busy."""
    answers: list[Answer] = []

    def answered() -> bool:
        answers.append(send(*arguments, **more))
        return "context deadline exceeded" not in message(answers[-1])

    until(answered, "the webhook answers in time")
    return answers[-1]


def message(answer: Answer) -> str:
    return str(answer.body.get("message", ""))


@pytest.mark.parametrize("size", [0, 650_000, 1_250_000])
def test_a_class_that_the_namespace_may_not_use(scene: Scene, size: int) -> None:
    refused = created(scene.server, f"c{size}", size, "gold")
    assert (refused.code, REFUSED in message(refused)) == (403, True)
    assert created(scene.server, f"c{size}", size, "cheap").code == 201


@pytest.mark.parametrize("size", [10, 650_000, 1_250_000])
def test_the_label_of_a_pod(scene: Scene, size: int) -> None:
    name = f"l{size}"
    make(scene.server, name, size)
    for label in ("other", None):
        refused = labelled(scene.server, name, label)
        assert (refused.code, FIXED in message(refused)) == (403, True)
    assert labelled(scene.server, name, "g").code == 200


def test_a_request_that_is_too_large_for_a_review_is_denied(scene: Scene) -> None:
    """YAML makes a review of 78 MB of one megabyte: the webhook does not read it, and it is not admitted."""
    value = "<" * 1_000_000
    repeated = "".join(f"\n    - {{name: A{number}, value: *a}}" for number in range(12))
    text = (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: padded, labels: {{{GROUP_LABEL}: g}}}}\nspec:\n"
        "  priorityClassName: gold\n  containers:\n  - name: c\n    image: i\n    env:\n"
        f'    - {{name: A, value: &a "{value}"}}{repeated}\n'
    )
    answer = judged(scene.server, "POST", f"{PODS}?dryRun=All", text, content_type="application/yaml")
    if scene.webhook is None:
        assert (answer.code, REFUSED in message(answer)) == (403, True)
        return
    assert (answer.code, "its review has more than 37 MiB" in message(answer)) == (413, True)
    assert 'podium_admission_errors_total{why="large body"} 0.0' not in scene.webhook.get("/metrics")[1]
    line, *_ = [each for each in scene.webhook.events if each["event"] == "not judged"]
    assert (line["why"], line["namespace"]) == ("large body", "default")
