"""Reads of a live cluster with faults: the whole cluster or one line, never a part of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, page, pods, serving, status

from podium.api.reads import READS, Reads
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.inputs import Loaded
from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.documents.clusterinfo import PATH
from podium.errors import PodiumError
from podium.kube import connection
from podium.kube.connection import connect
from podium.kube.discovery import Served, newest_first


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    async with serving(Fake()) as server:
        yield server


async def _load(fake: Fake, folder: Path, reads: Reads = READS, **options: Any) -> Loaded:
    """Load as a command does, in a thread beside the server's loop."""
    options.setdefault("all_namespaces", True)
    kube = KubeOptions(kubeconfig=fake.kubeconfig(folder), **options)
    return await asyncio.to_thread(load_live, kube, reads)


async def _refusal(fake: Fake, folder: Path, **options: Any) -> str:
    with pytest.raises(PodiumError) as refused:
        await _load(fake, folder, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def _in_turn(fake: Fake, path: str, *answers: web.StreamResponse) -> None:
    """Answer one path with these in order; a further request fails."""
    rest: Iterator[web.StreamResponse] = iter(answers)

    async def answer(_: web.Request) -> web.StreamResponse:
        return next(rest)

    fake.answers[path] = answer


@contextmanager
def _silent(fake: Fake, path: str) -> Iterator[None]:
    """Answer nothing on one path until the block has ended."""
    end = asyncio.Event()

    async def silence(_: web.Request) -> web.StreamResponse:
        await end.wait()
        return web.Response()

    fake.answers[path] = silence
    yield
    end.set()


async def test_pages_are_one_list(fake: Fake, tmp_path: Path) -> None:
    """Each page is requested with the token of the previous one."""
    _in_turn(
        fake,
        "/api/v1/pods",
        page("Pod", pods(1, 2), "a", 3),
        page("Pod", pods(3, 4), "b", 1),
        page("Pod", pods(5, 5)),
    )
    loaded = await _load(fake, tmp_path)
    assert [name for _, name in loaded.state.pods] == ["p1", "p2", "p3", "p4", "p5"]
    queries = [query for _, path, query in fake.requests if path == "/api/v1/pods"]
    assert queries == [
        {"limit": "500"}, {"limit": "500", "continue": "a"}, {"limit": "500", "continue": "b"}
    ]  # fmt: skip


@pytest.mark.parametrize("levels", [100, *range(850, 1050, 10), 9_000])
async def test_an_object_nested_as_deep_as_servers_take_it_is_read(
    fake: Fake, tmp_path: Path, levels: int
) -> None:
    """No read decodes a deeply nested field; a page may decode although the object does not."""
    managed = '{"f:a":' * levels + "{}" + "}" * levels
    text = page("Pod", pods(1, 2)).text
    assert text is not None
    deep = text.replace('"name": "p1"', f'"name": "p1", "managedFields": [{{"fieldsV1": {managed}}}]')
    assert deep != text
    _in_turn(fake, "/api/v1/pods", web.json_response(text=deep))
    loaded = await _load(fake, tmp_path)
    assert [name for _, name in loaded.state.pods] == ["p1", "p2"]


async def test_only_get_is_ever_sent(fake: Fake, tmp_path: Path) -> None:
    await _load(fake, tmp_path)
    assert {method for method, _, _ in fake.requests} == {"GET"}


async def test_every_request_impersonates_the_user_and_all_groups(fake: Fake, tmp_path: Path) -> None:
    await _load(fake, tmp_path, user="ann", groups=("a", "b"))
    assert fake.headers
    for headers in fake.headers:
        assert [value for name, value in headers if name == "Impersonate-User"] == ["ann"]
        assert [value for name, value in headers if name == "Impersonate-Group"] == ["a", "b"]


async def test_no_header_impersonates_by_default(fake: Fake, tmp_path: Path) -> None:
    await _load(fake, tmp_path)
    assert not [name for headers in fake.headers for name, _ in headers if name.startswith("Impersonate")]


async def test_a_user_with_a_line_break_is_refused_before_a_request(fake: Fake, tmp_path: Path) -> None:
    assert "failed" in await _refusal(fake, tmp_path, user="ann\r\nImpersonate-Group: system:masters")
    assert fake.requests == []


async def test_a_request_ends_after_the_requested_time(fake: Fake, tmp_path: Path) -> None:
    with _silent(fake, "/api/v1/pods"):
        message = await _refusal(fake, tmp_path, request_timeout=0.05)
    assert "no answer to GET /api/v1/pods in time" in message


async def test_the_best_version_is_read_and_the_rest_named(fake: Fake, tmp_path: Path) -> None:
    """Both versions of a group have the same objects: the more stable one is read."""
    loaded = await _load(fake, tmp_path)
    assert fake.paths() == [
        "/api/v1/pods",
        "/apis/scheduling.k8s.io/v1beta1/podgroups",
        "/apis/scheduling.k8s.io/v1beta1/workloads",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/api/v1/nodes",
    ]
    assert loaded.state.unread == {
        "CompositePodGroup": "not served by this cluster",
        "PodDisruptionBudget": "not served by this cluster",
        "KueueWorkload": "not served by this cluster",
        "Owner": "not served by this cluster",
    }
    assert loaded.server == "v1.37.0"


async def test_where_the_native_api_is_not_served_its_field_means_nothing(fake: Fake, tmp_path: Path) -> None:
    """PodGroup is unread there."""
    for version in ("v1alpha3", "v1beta1"):
        del fake.resources[f"/apis/scheduling.k8s.io/{version}"]
    loaded = await _load(fake, tmp_path)
    assert not loaded.state.native_served
    assert loaded.state.unread["PodGroup"] == "not served by this cluster"


async def test_a_kind_served_only_in_another_version_is_unread(fake: Fake, tmp_path: Path) -> None:
    """Unread differs from empty: the kind may have objects."""
    for version in ("v1alpha3", "v1beta1"):
        fake.resources[f"/apis/scheduling.k8s.io/{version}0"] = fake.resources.pop(
            f"/apis/scheduling.k8s.io/{version}"
        )
    loaded = await _load(fake, tmp_path)
    assert loaded.state.unread["PodGroup"] == (
        "PodGroup is served only as scheduling.k8s.io/v1alpha30, scheduling.k8s.io/v1beta10, "
        "which Podium does not read"
    )


async def test_the_namespace_is_the_contexts_unless_told(fake: Fake, tmp_path: Path, capsys: Any) -> None:
    """Cluster-scoped kinds are read whole; stderr names context, server and namespace."""
    kubeconfig = fake.kubeconfig(tmp_path, namespace="mine")
    loaded = await asyncio.to_thread(load_live, KubeOptions(kubeconfig=kubeconfig))
    assert fake.paths()[0] == "/api/v1/namespaces/mine/pods"
    assert fake.paths()[-1] == "/api/v1/nodes"
    assert loaded.scope == ("mine", "")
    assert capsys.readouterr().err == f"podium: context fake, server {fake.url}, namespace mine\n"
    fake.requests.clear()
    await _load(fake, tmp_path, namespace="yours", all_namespaces=False)
    assert fake.paths()[0] == "/api/v1/namespaces/yours/pods"
    await _load(fake, tmp_path)
    assert capsys.readouterr().err.endswith("all namespaces\n")


async def test_a_context_without_namespace_is_in_default(fake: Fake, tmp_path: Path) -> None:
    await _load(fake, tmp_path, all_namespaces=False)
    assert fake.paths()[0] == "/api/v1/namespaces/default/pods"


def test_a_namespace_is_one_step_of_the_path() -> None:
    """No text after -n leads to another resource."""
    pods_of = Served("v1", "Pod", READS["v1", "Pod"], "pods", namespaced=True)
    assert pods_of.path("../nodes") == "/api/v1/namespaces/..%2Fnodes/pods"
    assert pods_of.path("") == "/api/v1/pods"
    groups = pods_of._replace(api_version="scheduling.k8s.io/v1beta1", plural="podgroups")
    assert groups.path("t") == "/apis/scheduling.k8s.io/v1beta1/namespaces/t/podgroups"
    assert groups.resource == "podgroups.scheduling.k8s.io"
    nodes = Served("v1", "Node", READS["v1", "Node"], "nodes", namespaced=False)
    assert nodes.path("t") == "/api/v1/nodes"


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        (["v1alpha2", "v1beta1", "v1alpha3"], "v1beta1"),
        (["v1beta1", "v1"], "v1"),
        (["v1beta1", "v1beta2", "v2alpha1"], "v1beta2"),
        (["v1beta1", "v2beta1"], "v2beta1"),
        (["v1beta9", "v1beta10"], "v1beta10"),
        (["internal", "v1alpha1"], "v1alpha1"),
    ],
)
def test_versions_are_preferred_as_kubernetes_does(versions: list[str], best: str) -> None:
    """The order is stable, then beta, then alpha; then the newer."""
    assert min((f"g/{version}" for version in versions), key=newest_first) == f"g/{best}"


async def test_a_selector_narrows_namespaced_kinds_only(fake: Fake, tmp_path: Path) -> None:
    loaded = await _load(fake, tmp_path, selector="a in (b,c)")
    selectors = {path: query.get("labelSelector") for _, path, query in fake.requests if "limit" in query}
    assert selectors["/api/v1/pods"] == "a in (b,c)"
    assert selectors["/apis/scheduling.k8s.io/v1beta1/podgroups"] == "a in (b,c)"
    assert selectors["/api/v1/nodes"] is None
    assert loaded.scope.partial == "objects labelled a in (b,c) only"


async def test_a_forbidden_kind_is_unread_with_the_missing_permission(fake: Fake, tmp_path: Path) -> None:
    _in_turn(
        fake, "/apis/scheduling.k8s.io/v1beta1/podgroups", status(403, "Forbidden", "podgroups is forbidden")
    )
    _in_turn(fake, "/api/v1/namespaces/t/pods", status(403, "Forbidden", "pods is forbidden"))
    loaded = await _load(fake, tmp_path)
    assert loaded.state.unread["PodGroup"] == (
        'missing permission: list podgroups (API group "scheduling.k8s.io") cluster-wide'
    )
    loaded = await _load(fake, tmp_path, namespace="t", all_namespaces=False)
    assert loaded.state.unread["Pod"] == 'missing permission: list pods (API group "") in namespace t'


async def test_permission_lost_between_pages_is_a_kind_unread(fake: Fake, tmp_path: Path) -> None:
    """A partial list must not be taken for the whole."""
    _in_turn(fake, "/api/v1/pods", page("Pod", pods(1, 1), "a"), status(403, "Forbidden", "no"))
    loaded = await _load(fake, tmp_path)
    assert "missing permission" in loaded.state.unread["Pod"]


async def test_a_kind_that_went_away_is_unread(fake: Fake, tmp_path: Path) -> None:
    """A custom resource definition was deleted after discovery."""
    _in_turn(fake, "/apis/scheduling.k8s.io/v1beta1/workloads", status(404, "NotFound", "gone"))
    loaded = await _load(fake, tmp_path)
    assert loaded.state.unread["Workload"] == "not served by this cluster"


async def test_an_expired_list_is_read_again_from_the_start(fake: Fake, tmp_path: Path, capsys: Any) -> None:
    """The list is read again in full, because its first pages belong to another moment and are dropped."""
    _in_turn(
        fake,
        "/api/v1/pods",
        page("Pod", pods(1, 2), "a"),
        status(410, "Expired", "The provided continue parameter is too old"),
        page("Pod", pods(2, 3), "b"),
        page("Pod", pods(4, 4)),
    )
    loaded = await _load(fake, tmp_path)
    assert [name for _, name in loaded.state.pods] == ["p2", "p3", "p4"]
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"podium: {fake.url}: pods: The provided continue parameter is too old; reading everything again"
    ]


async def test_a_list_that_expires_twice_is_an_error(fake: Fake, tmp_path: Path) -> None:
    attempts = [(page("Pod", pods(1, 1), "a"), status(410, "Expired", "too old")) for _ in range(2)]
    _in_turn(fake, "/api/v1/pods", *attempts[0], *attempts[1])
    assert await _refusal(fake, tmp_path) == (
        f"{fake.url}: pods: too old, twice. Read one namespace (-n), or retry when the server is less busy"
    )


async def test_a_connection_lost_in_a_page_is_an_error(fake: Fake, tmp_path: Path) -> None:
    """Half an answer is an error, even if the half decodes."""

    async def half(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "1000"})
        await answer.prepare(request)
        await answer.write(b'{"kind":"PodList","items":[]}')
        assert request.transport is not None
        request.transport.close()
        return answer

    fake.answers["/api/v1/pods"] = half
    message = await _refusal(fake, tmp_path)
    assert message.startswith(f"{fake.url}: connection lost during GET /api/v1/pods")


async def test_a_connection_lost_between_pages_is_an_error(fake: Fake, tmp_path: Path) -> None:
    answers = iter([page("Pod", pods(1, 1), "a")])

    async def once(request: web.Request) -> web.StreamResponse:
        for answer in answers:
            return answer
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    fake.answers["/api/v1/pods"] = once
    message = await _refusal(fake, tmp_path)
    assert message.startswith(f"{fake.url}: ")
    assert "GET /api/v1/pods" in message


async def test_other_refusals_are_errors_with_the_servers_words(fake: Fake, tmp_path: Path) -> None:
    _in_turn(fake, "/api/v1/pods", status(400, "BadRequest", "unable to parse\n requirement"))
    assert await _refusal(fake, tmp_path, selector="a b") == (
        f"{fake.url}: GET /api/v1/pods: 400 BadRequest: unable to parse requirement"
    )
    _in_turn(fake, "/api/v1/pods", web.Response(status=502, text="<html>\nBad Gateway"))
    assert await _refusal(fake, tmp_path) == f"{fake.url}: GET /api/v1/pods: 502: <html> Bad Gateway"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<html>", "the answer is not a List (JSON is malformed: invalid character (byte 0))"),
        ('{"kind":"Status"}', "the answer is not a List (Object missing required field `items`)"),
        ('{"kind":"NodeList","items":[]}', "the answer is a NodeList"),
    ],
)
async def test_an_answer_that_is_no_list_is_an_error(
    fake: Fake, tmp_path: Path, body: str, message: str
) -> None:
    """A proxy may answer 200 with anything."""
    _in_turn(fake, "/api/v1/pods", web.Response(text=body))
    assert await _refusal(fake, tmp_path) == f"{fake.url}: GET /api/v1/pods: {message}"


async def test_an_object_that_does_not_decode_is_an_error(fake: Fake, tmp_path: Path) -> None:
    """The page and the item are named; the rest of the cluster is not reported without it."""
    _in_turn(fake, "/api/v1/pods", page("Pod", [*pods(1, 1), {"spec": {"priority": "x"}}]))
    assert await _refusal(fake, tmp_path) == (
        f"{fake.url}/api/v1/pods, document 1, items[1], line 1: "
        "spec.priority: expected integer or null, got string"
    )


async def test_something_else_than_an_api_server_is_an_error(fake: Fake, tmp_path: Path) -> None:
    _in_turn(fake, "/version", web.Response(text="<html>"))
    message = await _refusal(fake, tmp_path)
    assert message.startswith(
        f"{fake.url}: GET /version: unexpected answer; is this a Kubernetes API server?"
    )


async def test_a_busy_server_is_asked_again_when_it_says(fake: Fake, tmp_path: Path) -> None:
    """429, and 503 with Retry-After, wait for the server's time within bounds."""
    _in_turn(
        fake,
        "/x",
        status(429, "TooManyRequests", "later", Retry_After="2"),
        status(429, "TooManyRequests", "later"),
        status(503, "ServiceUnavailable", "later", Retry_After="3600"),
        status(500, "InternalError", "etcd", Retry_After="Thu, 01 Jan 2026 00:00:00 GMT"),
        web.Response(text="yes"),
    )
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with connect(fake.kubeconfig(tmp_path), None, sleep=sleep) as link:
        assert await link.get("/x") == b"yes"
    assert waits == [2.0, 1.0, 30.0, 1.0]


async def test_a_server_that_stays_busy_is_an_error(fake: Fake, tmp_path: Path) -> None:
    """After ten retries, as with client-go; an answer after fewer is used."""
    waits: list[float] = []

    def filling(times: int) -> list[web.Response]:
        text = "storage is (re)initializing"
        return [status(429, "TooManyRequests", text, Retry_After="1") for _ in range(times)]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with connect(fake.kubeconfig(tmp_path), None, sleep=sleep) as link:
        _in_turn(fake, "/x", *filling(10), web.Response(text="yes"))
        assert await link.get("/x") == b"yes"
        _in_turn(fake, "/x", *filling(11))
        with pytest.raises(PodiumError, match=r"429 TooManyRequests: storage is \(re\)initializing"):
            await link.get("/x")
    assert waits == [1.0] * 20


async def test_refused_credentials_are_an_error(fake: Fake, tmp_path: Path) -> None:
    fake.token = "another"
    assert (await _refusal(fake, tmp_path)).endswith(
        "401 Unauthorized: Unauthorized; the credential is unknown or expired. Renew it"
    )


async def test_a_server_that_falls_silent_is_an_error(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list keeps sending bytes; silence is a lost connection."""
    monkeypatch.setattr(connection, "_SILENCE_SECONDS", 0.05)
    with _silent(fake, "/version"):
        message = await _refusal(fake, tmp_path)
    assert message == f"{fake.url}: no answer to GET /version in time"


async def test_progress_is_shown_on_a_terminal_only(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Counts are shown on a terminal only, and erased at the end."""
    _in_turn(fake, "/api/v1/pods", page("Pod", pods(1, 2), "a", 3), page("Pod", pods(3, 5)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    await _load(fake, tmp_path)
    output = capsys.readouterr().err
    assert "\rreading pods: 2 of about 5" in output.replace("\x1b[K", "")
    assert "\rreading pods: 5\r" in output.replace("\x1b[K", "")
    assert output.endswith("\r\x1b[K")


async def test_a_namespace_that_is_not_there_has_no_report(fake: Fake, tmp_path: Path) -> None:
    """A mistyped namespace is an error, not an empty report, if the user may check that it exists."""
    _in_turn(fake, "/api/v1/namespaces/gone", status(404, "NotFound", 'namespaces "gone" not found'))
    _in_turn(fake, "/api/v1/namespaces/theirs", status(403, "Forbidden", "no"))
    message = await _refusal(fake, tmp_path, all_namespaces=False, namespace="gone")
    assert message.endswith(": namespace gone not found. Choose another with -n")
    read = await _load(fake, tmp_path, all_namespaces=False, namespace="theirs")
    assert read.scope.namespace == "theirs"


async def test_where_nothing_may_be_read_there_is_no_report(fake: Fake, tmp_path: Path) -> None:
    """An empty report would be a false success; the error has the missing rights, and where to find them."""

    async def refuse(_: web.Request) -> web.StreamResponse:
        return status(403, "Forbidden", "no")

    for root, resources in fake.resources.items():
        for plural, *_ in resources:
            fake.answers[f"{root}/{plural}"] = refuse
    message = await _refusal(fake, tmp_path)
    assert message.startswith(
        'access denied to all resources: missing permission: list pods (API group "") cluster'
    )
    assert message.endswith(" and 4 more. The needed permissions are in docs/dump.md")
    assert len(message) < 160
    del fake.answers["/api/v1/nodes"]
    assert "Pod" in (await _load(fake, tmp_path)).state.unread


@pytest.mark.parametrize(
    ("answer", "fields", "problem"),
    [
        pytest.param(
            web.json_response(
                {
                    "metadata": {"name": "podium-scheduler", "namespace": "podium-system"},
                    "data": {"config.yaml": "kind: SchedulerConfiguration\nevict: any\napiVersion: v1\n"},
                }
            ),
            {"kind": "SchedulerConfiguration", "evict": "any", "apiVersion": "v1"},
            "",
            id="it is read",
        ),
        pytest.param(status(403, "Forbidden", "you may not"), {}, "you may not", id="it may not be read"),
        pytest.param(status(404, "NotFound", "none"), None, None, id="there is none"),
    ],
)
async def test_the_schedulers_file(
    fake: Fake, tmp_path: Path, answer: web.Response, fields: Any, problem: str | None
) -> None:
    """A plan reads it, an audit does not."""
    _in_turn(fake, PATH, answer)
    loaded = await _load(fake, tmp_path, reads=SCHEDULING_READS)
    model = loaded.scheduler
    assert (model and model.fields, model and model.problem) == (fields, problem)
    assert (await _load(fake, tmp_path)).scheduler is None
