"""Serve a part of the webhook alone, to compute the cost of the other parts as a difference.

`python -m bench.stages SERVER ANSWER [CERTIFICATE KEY]` serves /mutate until killed and prints its port.
SERVER is `ours` or `aiohttp` (its low-level server, with no limit of ours). ANSWER is `canned` (the patch is
known, only the uid is copied) or `judged` (all of Podium, on a state made by hand).
"""

import asyncio
import base64
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec
import uvloop
from aiohttp import web
from bench import reviews

from podium.api.core import PriorityClass
from podium.api.meta import ObjectMeta
from podium.api.reads import READS
from podium.cluster.state import ClusterState
from podium.rules.context import Profile
from podium.rules.policy import Policy, RuleLevel
from podium.runtime import logs
from podium.runtime.host import LOOPBACK, listen
from podium.runtime.messages import HTTPRequest, HTTPResponse, Limits, Route
from podium.runtime.metrics import new_registry
from podium.runtime.server import HTTPServer
from podium.webhooks.handlers import Handlers
from podium.webhooks.metrics import WebhookMetrics

_PATCH = [{"op": "add", "path": "/spec/priorityClassName", "value": reviews.CLASS}]
_BODY_LIMIT = 7 << 20


def canned() -> Callable[[HTTPRequest], HTTPResponse]:
    """Return a handler that answers every request with one patch."""
    sample = reviews.pod_review()
    start = sample.index(b'"uid":"') + len(b'"uid":"')
    response = {
        "uid": "@",
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(msgspec.json.encode(_PATCH)).decode(),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    before, after = msgspec.json.encode(review).split(b"@")
    return lambda request: HTTPResponse(200, before + request.body[start : start + 36] + after)


class Known:
    """A cluster with the class and the group that never changes."""

    synced = True

    def __init__(self) -> None:
        self.state = ClusterState(native_served=False)
        self.state.apply(PriorityClass(metadata=ObjectMeta(name=reviews.CLASS), value=reviews.VALUE))
        group = reviews.pod_group()
        group["spec"]["priority"] = reviews.VALUE
        read = READS[group["apiVersion"], group["kind"]]
        self.state.apply(read.neutral(msgspec.convert(group, read.type)))

    async def changed(self, revision: int) -> None:  # noqa: ARG002 - the signature of the informers
        """Wait for ever."""
        await asyncio.Event().wait()


def profile() -> Profile:
    """Return the profile of the webhook."""
    policy = Policy(levels={rule: RuleLevel(level) for rule, level in reviews.LEVELS.items()})
    return Profile(kubernetes="1.37", rules="podium", policy=policy)


def judged() -> Callable[[HTTPRequest], Any]:
    """Return Podium's own handler."""
    ours = profile()
    log = logs.configure("json", "info")
    return Handlers(Known(), lambda: ours, WebhookMetrics(new_registry()), log).routes()["/mutate"].handler


async def serve_ours(answer: Callable[[HTTPRequest], HTTPResponse], context: ssl.SSLContext | None) -> int:
    """Serve as `podium webhook` does; return the port."""
    routes = {"/mutate": Route("POST", answer, "application/json", _BODY_LIMIT)}
    server = HTTPServer(routes, Limits(), lambda _why: None, context=context)
    await server.start(listen(LOOPBACK, 0))
    return server.port


async def serve_aiohttp(answer: Callable[[HTTPRequest], HTTPResponse], context: ssl.SSLContext | None) -> int:
    """Serve with aiohttp's minimal server; return the port."""
    loop = asyncio.get_running_loop()

    async def handle(request: web.BaseRequest) -> web.Response:
        began = time.perf_counter()
        timeout = request.query.get("timeout", "10s")
        body = await request.read()
        response = answer(HTTPRequest(request.path, body, loop.time() + float(timeout.rstrip("s")), began))
        return web.Response(status=response.status, body=response.body, content_type="application/json")

    factory = web.Server(handle, access_log=None, keepalive_timeout=300.0)
    listening = await loop.create_server(factory, "127.0.0.1", 0, ssl=context)
    port: int = listening.sockets[0].getsockname()[1]
    return port


async def main(server: str, answer: str, pair: list[str]) -> None:
    """Serve until killed."""
    context = None
    if pair:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*pair)
    handler = {"canned": canned, "judged": judged}[answer]()
    port = await {"ours": serve_ours, "aiohttp": serve_aiohttp}[server](handler, context)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
