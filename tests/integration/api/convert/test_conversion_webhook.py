"""Podium's two versions on a real API server that requests conversion, as from the webhook.

The server checks the answer: one object for each, of the requested version, metadata unchanged except for
labels and annotations. It prunes the fields that the version's schema does not have.
"""

import base64
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.servers import Server, exclusive, in_turn
from tools.devcluster.controlplane.releases import RELEASES

from podium.api.convert import KEPT, STORED
from podium.crds import definitions
from podium.webhooks.conversion import convert_review

pytestmark = pytest.mark.server

OLDER = "scheduling.podium.dev/v1alpha2"


class _Converter(http.server.BaseHTTPRequestHandler):
    """Answers ConversionReviews with the function under test only."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = convert_review(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the library
        """Log nothing: a failure shows in the API server's answer."""


@contextlib.contextmanager
def converter(server: Server) -> Iterator[str]:
    """Serve conversion on loopback with the API server's own certificate, which is for 127.0.0.1."""
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Converter)
    listener.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = server.folder / "certificates"
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.server_address[1]}/convert"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


@pytest.fixture(scope="module", params=in_turn(__name__))
def converting(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server for this module that serves both versions of Podium's kinds."""
    with exclusive(RELEASES[request.param]) as server, converter(server) as url:
        bundle = base64.b64encode(server.access.authority.read_bytes()).decode()
        kinds = {
            "apiVersion": "v1",
            "kind": "List",
            "items": definitions.crds({"url": url, "caBundle": bundle}),
        }
        server.kubectl("apply", "--server-side", "-f", "-", stdin=kinds)
        server.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", "-", stdin=kinds)
        yield server


def path(api_version: str, kind: str, name: str = "") -> str:
    where = f"/apis/{api_version}/namespaces/default/{kind.lower()}s"
    return f"{where}/{name}" if name else where


def ask(server: Server, method: str, where: str, body: Any = None) -> dict[str, Any]:
    """Send a request that must succeed."""
    code, answer = server.request(method, where, body)
    assert code in (200, 201), answer
    assert isinstance(answer, dict)
    return answer


def create(server: Server, api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return ask(server, "POST", path(api_version, kind), body)


GANG = {"gang": {"minCount": 2}}
TIME = "2026-11-21T00:00:00Z"


def test_each_version_shows_the_same_group(converting: Server) -> None:
    """Objects are written in either version and read in the other; a list has objects of both versions."""
    older = {
        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        "schedulingPolicy": GANG,
        "disruptionMode": "PodGroup",
    }
    newer = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": GANG,
        "disruptionMode": {"all": {}},
    }
    assert create(converting, OLDER, "PodGroup", "by-older", older)["spec"] == older
    assert create(converting, STORED, "PodGroup", "by-newer", newer)["spec"] == newer
    for version, spec in ((OLDER, older), (STORED, newer)):
        items = ask(converting, "GET", path(version, "PodGroup"))["items"]
        found = {item["metadata"]["name"]: item["spec"] for item in items}
        assert (found["by-older"], found["by-newer"]) == (spec, spec)


def test_a_v1alpha2_client_does_not_lose_what_it_cannot_see(converting: Server) -> None:
    """A group is read, labelled and replaced in v1alpha2; the stored preemptionPolicy stays everywhere."""
    create(converting, STORED, "PodGroup", "quiet", {"schedulingPolicy": GANG, "preemptionPolicy": "Never"})
    templates = [{"name": "t", "schedulingPolicy": GANG, "preemptionPolicy": "Never"}]
    create(converting, STORED, "Workload", "quiet", {"podGroupTemplates": templates})
    for kind in ("PodGroup", "Workload"):
        stored = ask(converting, "GET", path(STORED, kind, "quiet"))
        seen = ask(converting, "GET", path(OLDER, kind, "quiet"))
        assert list(seen["metadata"]["annotations"]) == [KEPT]
        assert "preemptionPolicy" not in json.dumps(seen["spec"])
        labelled = seen | {"metadata": seen["metadata"] | {"labels": {"seen": "yes"}}}
        ask(converting, "PUT", path(OLDER, kind, "quiet"), labelled)
        after = ask(converting, "GET", path(STORED, kind, "quiet"))
        assert after["spec"] == stored["spec"]
        assert after["metadata"]["labels"] == {"seen": "yes"}
        assert "annotations" not in after["metadata"]


def test_the_condition_has_each_versions_name(converting: Server) -> None:
    made = create(converting, OLDER, "PodGroup", "scheduled", {"schedulingPolicy": GANG})
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Fits", "lastTransitionTime": TIME}
    where = path(OLDER, "PodGroup", "scheduled/status")
    written = ask(converting, "PUT", where, made | {"status": {"conditions": [condition]}})
    assert written["status"] == {"conditions": [condition]}
    newer = ask(converting, "GET", path(STORED, "PodGroup", "scheduled"))["status"]["conditions"]
    assert newer == [condition | {"type": "PodGroupInitiallyScheduled"}]


def test_immutable_fields_are_immutable_in_either_version(converting: Server) -> None:
    """A group written in v1beta1 cannot be changed through v1alpha2, where minCount is immutable."""
    create(converting, STORED, "PodGroup", "fixed", {"schedulingPolicy": GANG})
    seen = ask(converting, "GET", path(OLDER, "PodGroup", "fixed"))
    for change in ({"disruptionMode": "PodGroup"}, {"schedulingPolicy": {"gang": {"minCount": 3}}}):
        wanted = seen | {"spec": seen["spec"] | change}
        code, refused = converting.request("PUT", path(OLDER, "PodGroup", "fixed"), wanted)
        (field,) = change
        assert code == 422
        assert f"spec.{field}: Invalid value: " in refused["message"]
        assert "field is immutable" in refused["message"]


def test_unlike_templates_of_v1alpha2_can_be_updated_in_v1beta1(converting: Server) -> None:
    """Only the admission webhook compares templates, unless the stored ones differ."""
    templates = [
        {"name": name, "schedulingPolicy": GANG, "priority": index} for index, name in enumerate("ab")
    ]
    create(converting, OLDER, "Workload", "unlike", {"podGroupTemplates": templates})
    seen = ask(converting, "GET", path(STORED, "Workload", "unlike"))
    labelled = ask(
        converting,
        "PUT",
        path(STORED, "Workload", "unlike"),
        seen | {"metadata": seen["metadata"] | {"labels": {"seen": "yes"}}},
    )
    assert labelled["spec"] == {"podGroupTemplates": templates}
    more = [templates[0] | {"schedulingPolicy": {"gang": {"minCount": 3}}}, templates[1]]
    wanted = labelled | {"spec": {"podGroupTemplates": more}}
    assert ask(converting, "PUT", path(STORED, "Workload", "unlike"), wanted)["spec"] == wanted["spec"]
