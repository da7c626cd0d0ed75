"""A small API server with scripted answers, for faults that a real server shows rarely."""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

RESOURCES = {
    "/api/v1": [("pods", "Pod", True), ("nodes", "Node", False), ("pods/status", "Pod", True)],
    "/apis/scheduling.k8s.io/v1": [("priorityclasses", "PriorityClass", False)],
    "/apis/scheduling.k8s.io/v1alpha3": [("podgroups", "PodGroup", True), ("workloads", "Workload", True)],
    "/apis/scheduling.k8s.io/v1beta1": [("podgroups", "PodGroup", True), ("workloads", "Workload", True)],
}


class Fake:
    """The server: `answers` by path replace discovery and empty lists; `requests` and `headers` are kept."""

    def __init__(self) -> None:
        self.url = ""
        self.token = "secret"
        self.resources = dict(RESOURCES)
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.headers: list[list[tuple[str, str]]] = []

    def paths(self) -> list[str]:
        """The paths of the lists that were requested."""
        return [path for _, path, query in self.requests if "limit" in query]

    def kubeconfig(self, folder: Path, *, authority: str = "", **context: str) -> str:
        """Write a kubeconfig for this server; under TLS, `authority` is the file of its CA."""
        path = folder / "kubeconfig"
        trusted = {"certificate-authority": authority} if authority else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url, **trusted}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", **context}}],
        }
        path.write_text(json.dumps(config))
        return str(path)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.requests.append((request.method, request.path, dict(request.query)))
        self.headers.append(list(request.headers.items()))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        answer = self.answers.get(request.path)
        if answer is not None:
            return await answer(request)
        return self._discovery(request.path) or self._empty(request.path)

    def _discovery(self, path: str) -> web.Response | None:
        if path == "/version":
            return web.json_response({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
        if path == "/apis":
            groups: dict[str, list[dict[str, str]]] = {}
            for each in self.resources:
                _, root, *rest = each.split("/")
                if root == "apis":
                    groups.setdefault(rest[0], []).append({"version": rest[1]})
            return web.json_response({"groups": [{"name": k, "versions": v} for k, v in groups.items()]})
        if path in self.resources:
            found = [
                {"name": name, "kind": kind, "namespaced": namespaced, "verbs": ["get", "list"]}
                for name, kind, namespaced in self.resources[path]
            ]
            return web.json_response({"kind": "APIResourceList", "resources": found})
        return None

    def _empty(self, path: str) -> web.Response:
        for root, resources in self.resources.items():
            for name, kind, _ in resources:
                if path.startswith(root) and path.endswith(f"/{name}"):
                    return page(kind, [])
        return status(404, "NotFound", "the server could not find the requested resource")


def page(kind: str, items: list[dict[str, Any]], next_page: str = "", remaining: int = 0) -> web.Response:
    """Return a page of a typed List."""
    metadata: dict[str, Any] = {"resourceVersion": "7"}
    if next_page:
        metadata |= {"continue": next_page, "remainingItemCount": remaining}
    return web.json_response(
        {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}
    )


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """Return a refusal in the form of an API server's."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(
        body, status=code, headers={name.replace("_", "-"): v for name, v in headers.items()}
    )


def pods(first: int, last: int) -> list[dict[str, Any]]:
    """Return pods p1, p2, ... as items of a typed List."""
    return [{"metadata": {"name": f"p{number}", "namespace": "t"}} for number in range(first, last + 1)]


@asynccontextmanager
async def serving(fake: Fake, tls: ssl.SSLContext | None = None) -> AsyncIterator[Fake]:
    """Serve on a loopback port of its own, in plain HTTP unless there is a context."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    host, port = runner.addresses[0][:2]
    fake.url = f"http{'s' if tls else ''}://{host}:{port}"
    try:
        yield fake
    finally:
        await runner.cleanup()
