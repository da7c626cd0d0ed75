"""Confine the scheduler's account to bindings of its own pods, for a cluster that asks for it.

A policy of the API server sees a Binding and not its pod. With the pods of the namespace as params it could
compare them. But then each bind of every scheduler takes 40 ms longer per 1,000 pods of the namespace (105 ms
for the account's own). So a webhook reads the one pod, which takes the right to get pods. The component
confined-binds registers it for the account of Podium's scheduler only. Its failurePolicy is Fail, so any
answer but an admission refuses the bind, and the scheduler tries again.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from structlog.typing import FilteringBoundLogger

from podium import jsontext
from podium.api.core import PODIUM_SCHEDULER
from podium.errors import PodiumError
from podium.kube.timeouts import within
from podium.runtime.logs import Seldom
from podium.runtime.messages import JSON, HTTPRequest, HTTPResponse, RequestBudget, Route, text_response
from podium.webhooks.envelope import UNREADABLE, ReviewError, admission, denial, unwrap

PATH = "/binding"
# A Binding of the scheduler, which writes neither labels nor annotations, has 300 bytes.
BODY_BYTES = 64 << 10
# Binds of one scheduler that wait for their pods to be read.
BINDINGS = RequestBudget("bindings", 1 << 20, 500, 250)
# Pods that are read at the same time, and the most bytes of one: 1.5 MiB (the limit of etcd) of characters
# that JSON writes as six.
READS = 2
POD_BYTES = 10 << 20

# Returns the body of a GET of a path. Raises RefusedError and PodiumError.
Get = Callable[[str], Awaitable[bytes]]


class BindingRequest(msgspec.Struct, frozen=True):
    """A bind: the uid of the request, the namespace and name of the pod, and the UID in the Binding."""

    request: str
    namespace: str
    name: str
    pod: str


class _PodIdentity(msgspec.Struct):
    uid: str = ""


class _Binding(msgspec.Struct):
    metadata: _PodIdentity = msgspec.field(default_factory=_PodIdentity)


class _BoundSpec(msgspec.Struct):
    schedulerName: str = ""


class _BoundPod(msgspec.Struct):
    metadata: _PodIdentity = msgspec.field(default_factory=_PodIdentity)
    spec: _BoundSpec = msgspec.field(default_factory=_BoundSpec)


_bindings = jsontext.Decoder(_Binding)
_pods = jsontext.Decoder(_BoundPod)


def decode(body: bytes | bytearray) -> BindingRequest:
    """Return the bind in an AdmissionReview. Raises ReviewError."""
    asked = unwrap(body)
    try:
        binding: _Binding = _bindings.decode(asked.object)
    except UNREADABLE as error:
        raise ReviewError(f"AdmissionReview: request.object: {error}") from None
    return BindingRequest(asked.uid, asked.namespace or "", asked.name or "", binding.metadata.uid)


def refusal_of(bind: BindingRequest, uid: str, scheduler: str) -> str | None:
    """Return why the account may not bind a pod that has this UID and schedulerName; None if it may."""
    if uid != bind.pod:
        return f"the Binding names the UID {bind.pod or '(none)'}, and the pod has {uid}"
    if scheduler != PODIUM_SCHEDULER:
        return f"spec.schedulerName is {scheduler}, and this account binds only pods of {PODIUM_SCHEDULER}"
    return None


class Bindings:
    """Judges binds of the scheduler's account by the pods that the API server has now."""

    def __init__(
        self,
        get: Get,
        log: FilteringBoundLogger,
        lines: Seldom,
        unreadable: Callable[[ReviewError], HTTPResponse],
    ) -> None:
        """`unreadable` returns the answer to a body that is no review."""
        self._get = get
        self._log = log
        self._lines = lines
        self._unreadable = unreadable
        self._reads = asyncio.Semaphore(READS)

    def routes(self) -> dict[str, Route]:
        """Return the route to serve."""
        return {PATH: Route("POST", self._review, JSON, BODY_BYTES, keeps_body=False, budget=BINDINGS)}

    def _review(self, request: HTTPRequest) -> HTTPResponse | Awaitable[HTTPResponse]:
        try:
            return self._read(decode(request.body), request.deadline)
        except ReviewError as error:
            return self._unreadable(error)

    async def _read(self, bind: BindingRequest, deadline: float) -> HTTPResponse:
        path = f"/api/v1/namespaces/{bind.namespace}/pods/{bind.name}"
        try:
            body = await within(deadline - asyncio.get_running_loop().time(), self._pod_body(path))
            pod: _BoundPod = _pods.decode(body)
        except TimeoutError:
            return self._unread(bind, "not read in time")
        except (PodiumError, *UNREADABLE) as error:
            return self._unread(bind, f"{error}")
        why = refusal_of(bind, pod.metadata.uid, pod.spec.schedulerName)
        if why is None:
            return HTTPResponse(200, admission(bind.request))
        self._report("bind refused", bind, why)
        return HTTPResponse(200, denial(bind.request, f"pod {bind.namespace}/{bind.name}: {why}"))

    async def _pod_body(self, path: str) -> bytes:
        async with self._reads:
            return await self._get(path)

    def _unread(self, bind: BindingRequest, why: str) -> HTTPResponse:
        """Return an answer that no API server takes for an admission."""
        self._report("pod not read", bind, why)
        return text_response(500, f"pod {bind.namespace}/{bind.name}: {why}")

    def _report(self, event: str, bind: BindingRequest, why: str) -> None:
        if (left_out := self._lines.admit_line(event)) is not None:
            self._log.warning(event, namespace=bind.namespace, name=bind.name, why=why, left_out=left_out)
