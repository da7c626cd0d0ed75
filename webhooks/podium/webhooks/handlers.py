"""Handlers of the API server's requests: mutate (including gangs), validate and convert; bytes in, bytes out.

The state is read without awaiting, so a request sees one consistent state and needs no task. If it names an
unknown object (a PriorityClass applied together with its group), the request waits for a change of the
cluster. The wait is a part of its timeout. A bug is a 500 and counted, never a denial, so that the API server
applies failurePolicy.

A request that is refused for its size or for lack of resources is denied: an AdmissionReview with `allowed:
false`. The API server treats any other answer (413, 429, 500, a reset) as a failed call. It then admits the
request where failurePolicy is Ignore (apiserver, pkg/admission/plugin/webhook/validating/dispatcher.go:
ErrCallingWebhook). So only a missing answer fails open.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from podium.cluster.reader import ClusterReader
from podium.kube.timeouts import within
from podium.rules.admission import Verdict
from podium.rules.context import Profile
from podium.rules.podiumrule import AdmissionPhase
from podium.rules.webhook import NO_OPINION, review_phase
from podium.runtime.host import steady
from podium.runtime.logs import LINES_A_MINUTE, Seldom
from podium.runtime.messages import (
    JSON,
    RETRY,
    HTTPRequest,
    HTTPResponse,
    RequestBudget,
    Route,
    text_response,
)
from podium.webhooks.conversion import convert_review
from podium.webhooks.envelope import ReviewError, peek_identity, refusal
from podium.webhooks.metrics import REFUSED, WebhookMetrics, outcome
from podium.webhooks.review import LargeError, Review, decode, encode

# Limits on requests that wait for an object that the cluster state does not have yet.
#
# A tenant chooses the objects that its requests name, so it can make any number of them wait. Each namespace
# has a share. If the share or the total is used up, a request is judged at once with the current state. No
# request is refused because others wait.

# A waiting request needs little memory, because its body is released.
PLACES = 100
PLACES_OF_NAMESPACE = 10


class Room:
    """The waiting requests, by namespace."""

    def __init__(self, places: int = PLACES, share: int = PLACES_OF_NAMESPACE) -> None:
        self._places = places
        self._share = share
        self._taken: Counter[str] = Counter()

    def enter(self, namespace: str) -> bool:
        """Reserve a place until `leave`. Return False if there is none."""
        if self._taken[namespace] >= self._share or self._taken.total() >= self._places:
            return False
        self._taken[namespace] += 1
        return True

    def leave(self, namespace: str) -> None:
        """Release a place."""
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]


# An API server accepts 3 MiB from a client (MaxRequestBodyBytes), writes each `<`, `>` and `&` as six bytes,
# and sends both objects of an update; user and options have at most 1 MiB. Defaults and managedFields, which
# grow with the number of fields, are not escaped. An object of etcd's default limit, 1.5 MiB, fits twelve
# times. So an object too large for a review cannot be stored either, and is denied.
ADMISSION_BYTES = 2 * 6 * (3 << 20) + (1 << 20)
# A list of 15,000 groups. API servers convert each object separately, but may send a list.
CONVERSION_BYTES = 32 << 20
# Two reviews of the maximum size, and many of the usual size of some KiB.
ADMISSION = RequestBudget("admission", 2 * ADMISSION_BYTES + (22 << 20), PLACES, 1000)
# Two lists of the maximum size. Any client may send conversions, so they have few connections and a short
# queue.
CONVERSION = RequestBudget("conversion", 2 * CONVERSION_BYTES, 32, 250)
# Larger conversions, of about 10 ms, run on a thread and leave the event loop to admission.
_ASIDE_BYTES = 256 << 10
# The longest wait for an object that a request names, at most half of the request's timeout; below, the
# delays between two attempts while the cluster changes.
PATIENCE_SECONDS = 0.5
# A larger request never waits, because its decoded object stays in memory while it waits.
PATIENT_BYTES = 32 << 10
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05
# The maximum length of a request's text in an answer.
_LONGEST_REASON = 300
# A traceparent of W3C Trace Context; the group is the trace id. Version 00 has 55 characters, later ones may
# have more fields, and ff is none. No id is all zeros.
_TRACEPARENT = re.compile(
    r"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})"
    r"-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MESSAGES = {
    "large body": f"its review has more than {ADMISSION_BYTES >> 20} MiB. Make the object smaller",
    "connections": "the webhook has too many connections. Try again",
    "memory": "the webhook holds too many large requests. Try again",
    "waiting": "too many requests wait in the webhook. Try again",
    "slow body": "its body did not arrive in time. Try again",
}


class LiveView(Protocol):
    """The current cluster state, and notification of changes."""

    @property
    def state(self) -> ClusterReader:
        """Return the current state."""

    @property
    def synced(self) -> bool:
        """Return whether every wanted kind has been listed once."""

    async def changed(self, revision: int) -> None:
        """Return when the state's revision differs from `revision`."""


class _PendingReview(NamedTuple):
    review: Review
    deadline: float
    began: float
    traceparent: str


class Handlers:
    """Judges requests with the current state of `cluster` and the current `profile`."""

    def __init__(
        self,
        cluster: LiveView,
        profile: Callable[[], Profile],
        metrics: WebhookMetrics,
        log: FilteringBoundLogger,
        *,
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = steady,
    ) -> None:
        self._cluster = cluster
        self._profile = profile
        self._metrics = metrics
        self._log = log
        self._patience = patience
        self._room = Room()
        self._lines = Seldom(LINES_A_MINUTE, 60.0, clock)
        self._aside = ThreadPoolExecutor(1, "convert")

    def routes(self) -> dict[str, Route]:
        """Return the routes to serve."""
        return {
            **{
                f"/{phase}": Route(
                    "POST",
                    partial(self._admit, phase),
                    JSON,
                    ADMISSION_BYTES,
                    keeps_body=False,
                    budget=ADMISSION,
                    declined=self._declined,
                    owner=_namespace,
                )
                for phase in AdmissionPhase
            },
            # API servers send no client certificate for conversions, which return no data but the client's
            # own. So a conversion does not protect its connection.
            "/convert": Route(
                "POST",
                self._convert,
                JSON,
                CONVERSION_BYTES,
                anonymous=True,
                proves=False,
                budget=CONVERSION,
            ),
        }

    def close(self) -> None:
        """Stop the thread for large conversions."""
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _admit(self, phase: AdmissionPhase, request: HTTPRequest) -> HTTPResponse | Awaitable[HTTPResponse]:
        if not self._cluster.synced:
            # An API server retries after this status; it would accept a denial as the answer.
            self._metrics.count_refusal("not synced")
            return text_response(503, "not synced yet", RETRY)
        try:
            review = decode(request.body, phase)
        except LargeError as error:
            self._metrics.count_refusal("large object")
            return self._denied("large object", error.uid, "", f"{error}")
        except ReviewError as error:
            return self.unreadable(error)
        traceparent = request.headers.get("traceparent", "")
        pending = _PendingReview(review, request.deadline, request.began, traceparent)
        try:
            revision = self._cluster.state.revision
            verdict = self._review(review)
            small = len(request.body) <= PATIENT_BYTES
            if verdict.awaits and small and self._room.enter(review.namespace):
                return self._patiently(pending, verdict, revision)
            return self._reply(pending, verdict)
        except Exception as error:  # noqa: BLE001 - the answer to a bug is a 500, not a denial
            return self._failed(review, error)

    async def _patiently(self, pending: _PendingReview, verdict: Verdict, revision: int) -> HTTPResponse:
        """Judge again when the cluster has changed, until nothing is missing or the wait is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._patience, (pending.deadline - loop.time()) / 2)
        pause = _FIRST_PAUSE_SECONDS
        try:
            while verdict.awaits and loop.time() < end:
                with contextlib.suppress(TimeoutError):
                    await within(end - loop.time(), self._cluster.changed(revision))
                # Most changes concern other objects, so the delay grows with each attempt.
                await asyncio.sleep(min(pause, end - loop.time()))
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                revision = self._cluster.state.revision
                verdict = self._review(pending.review)
            return self._reply(pending, verdict)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(pending.review, error)
        finally:
            self._room.leave(pending.review.namespace)

    def _review(self, review: Review) -> Verdict:
        if review.request is None:
            return NO_OPINION
        return review_phase(review.phase, review.request, self._cluster.state, self._profile())

    def _reply(self, pending: _PendingReview, verdict: Verdict) -> HTTPResponse:
        review = pending.review
        body = encode(review, verdict)
        self._metrics.judged(review, verdict, time.perf_counter() - pending.began)
        log = self._log.info if verdict.findings else self._log.debug
        log(
            outcome(verdict),
            uid=review.uid,
            phase=review.phase,
            operation=review.operation,
            kind=review.kind,
            subresource=review.subresource,
            namespace=review.namespace,
            name=review.name,
            dry_run=review.dry_run,
            code=verdict.code,
            rules=[finding.rule for finding in verdict.findings],
            **_trace_field(pending.traceparent),
        )
        return HTTPResponse(200, body)

    def _convert(self, request: HTTPRequest) -> HTTPResponse | Awaitable[HTTPResponse]:
        if len(request.body) > _ASIDE_BYTES:
            return self._convert_aside(request)
        try:
            return self._converted(convert_review(request.body), request)
        except ReviewError as error:
            return self.unreadable(error)

    async def _convert_aside(self, request: HTTPRequest) -> HTTPResponse:
        loop = asyncio.get_running_loop()
        try:
            return self._converted(
                await loop.run_in_executor(self._aside, partial(convert_review, request.body)), request
            )
        except ReviewError as error:
            return self.unreadable(error)

    def _converted(self, body: bytearray, request: HTTPRequest) -> HTTPResponse:
        self._metrics.converted(time.perf_counter() - request.began)
        return HTTPResponse(200, body)

    def _declined(self, why: str, beginning: bytes) -> HTTPResponse | None:
        """Return a denial of a refused request if the beginning of its body has the uid."""
        identity = peek_identity(beginning)
        if identity is None or why not in _MESSAGES:
            return None
        return self._denied(why, identity.uid, identity.namespace, _MESSAGES[why])

    def _denied(self, why: str, uid: str, namespace: str, message: str) -> HTTPResponse:
        if (left_out := self._lines.admit_line(why)) is not None:
            self._log.warning("not judged", why=why, uid=uid, namespace=namespace, left_out=left_out)
        return HTTPResponse(200, refusal(uid, REFUSED[why], f"Podium did not judge this request: {message}."))

    def unreadable(self, error: ReviewError) -> HTTPResponse:
        """Count and log a body that is no review; return the answer to it."""
        short_reason = str(error)[:_LONGEST_REASON]
        self._metrics.count_refusal("review")
        if (left_out := self._lines.admit_line("unreadable")) is not None:
            self._log.info("unreadable", reason=short_reason, left_out=left_out)
        return text_response(400, short_reason)

    def _failed(self, review: Review, error: Exception) -> HTTPResponse:
        self._metrics.count_refusal("exception")
        self._log.error(
            "judging failed", uid=review.uid, phase=review.phase, kind=review.kind, exc_info=error
        )
        return text_response(500, "internal error, see the log")


def _trace_field(traceparent: str) -> dict[str, str]:
    """Return the log field `trace_id` of a traceparent header; none for an absent or invalid header."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent else None
    return {"trace_id": match[1]} if match else {}


def _namespace(beginning: bytes) -> str:
    """Return the namespace, the owner of a review's bytes."""
    identity = peek_identity(beginning)
    return identity.namespace if identity is not None else ""
