"""Handlers of the API server's requests: mutate (including gangs), validate and convert; bytes in, bytes out.

The state is read without awaiting, so a request sees one consistent state and needs no task. If it names an
object that is not known yet (a PriorityClass applied together with its group), the request waits for a change
of the cluster, for a part of its timeout. A bug is a 500 and counted, never a denial, so that the API server
applies failurePolicy.

A request that is refused for its size or for lack of resources is denied: an AdmissionReview with `allowed:
false`. The API server treats any other answer (413, 429, 500, a reset) as a failed call. It then admits the
request where failurePolicy is Ignore (apiserver, pkg/admission/plugin/webhook/validating/dispatcher.go:
ErrCallingWebhook). So only a missing answer fails open.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

from structlog.typing import FilteringBoundLogger

from podium.rules.admission import Verdict
from podium.rules.case import Profile
from podium.rules.target import Phase
from podium.rules.webhook import NO_OPINION, judge
from podium.service.limits import Budget
from podium.service.messages import JSON, RETRY, Ask, Reply, Route
from podium.service.seldom import Seldom
from podium.view import View
from podium.webhooks.conversion import convert_review
from podium.webhooks.metrics import REFUSED, Metrics, outcome
from podium.webhooks.review import LargeError, Review, ReviewError, begin, decode, encode, refusal
from podium.webhooks.room import PLACES, Room

# An API server accepts 3 MiB from a client (MaxRequestBodyBytes), writes each `<`, `>` and `&` as six bytes,
# and sends both objects of an update; user and options have at most 1 MiB. Defaults and managedFields, which
# grow with the number of fields, are not escaped. An object of etcd's default limit, 1.5 MiB, fits twelve
# times. So an object too large for a review cannot be stored either, and is denied.
ADMISSION_BYTES = 2 * 6 * (3 << 20) + (1 << 20)
# A list of 15,000 groups. API servers convert each object separately, but may send a list.
CONVERSION_BYTES = 32 << 20
# Two reviews of the maximum size, and many of the usual size of some KiB.
ADMISSION = Budget("admission", 2 * ADMISSION_BYTES + (22 << 20), PLACES, 1000)
# Two lists of the maximum size. Any client may send conversions, so they have few connections and a short
# queue.
CONVERSION = Budget("conversion", 2 * CONVERSION_BYTES, 32, 250)
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
_SAID = 300
# Log lines of one kind in a minute, where a client controls their number.
_LINES_A_MINUTE = 10
_MESSAGES = {
    "large body": f"its review has more than {ADMISSION_BYTES >> 20} MiB. Make the object smaller",
    "connections": "the webhook has too many connections. Try again",
    "memory": "the webhook holds too many large requests. Try again",
    "waiting": "too many requests wait in the webhook. Try again",
    "slow body": "its body did not arrive in time. Try again",
}

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class LiveView(Protocol):
    """The current cluster state, and notification of changes."""

    @property
    def state(self) -> View:
        """Return the current state."""

    @property
    def synced(self) -> bool:
        """Return whether every wanted kind has been listed once."""

    async def changed(self, revision: int) -> None:
        """Return when the state's revision differs from `revision`."""


class _Question(NamedTuple):
    review: Review
    deadline: float
    began: float


class Handlers:
    """Judges requests with the current state of `cluster` and the current `profile`."""

    def __init__(
        self,
        cluster: LiveView,
        profile: Callable[[], Profile],
        metrics: Metrics,
        log: FilteringBoundLogger,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._cluster = cluster
        self._profile = profile
        self._metrics = metrics
        self._log = log
        self._patience = patience
        self._room = Room()
        self._lines = Seldom(_LINES_A_MINUTE, 60.0, time.monotonic)
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
                for phase in Phase
            },
            # API servers send no client certificate for conversions, which return no data but the client's
            # own. So a conversion does not protect its connection.
            "/convert": Route(
                "POST",
                self._convert,
                JSON,
                CONVERSION_BYTES,
                anybody=True,
                proves=False,
                budget=CONVERSION,
            ),
        }

    def close(self) -> None:
        """Stop the thread for large conversions."""
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _admit(self, phase: Phase, ask: Ask) -> Reply | Awaitable[Reply]:
        if not self._cluster.synced:
            # An API server retries after this status; it would accept a denial as the answer.
            self._metrics.refused("not synced")
            return Reply(503, b"not synced yet\n", {**_TEXT, **RETRY})
        try:
            review = decode(ask.body, phase)
        except LargeError as error:
            self._metrics.refused("large object")
            return self._denied("large object", error.uid, "", f"{error}")
        except ReviewError as error:
            return self._unreadable(error)
        question = _Question(review, ask.deadline, ask.began)
        try:
            revision = self._cluster.state.revision
            verdict = self._judge(review)
            small = len(ask.body) <= PATIENT_BYTES
            if verdict.awaits and small and self._room.enter(review.namespace):
                return self._patiently(question, verdict, revision)
            return self._reply(question, verdict)
        except Exception as error:  # noqa: BLE001 - the answer to a bug is a 500, not a denial
            return self._failed(review, error)

    async def _patiently(self, question: _Question, verdict: Verdict, revision: int) -> Reply:
        """Judge again when the cluster has changed, until nothing is missing or the wait is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._patience, (question.deadline - loop.time()) / 2)
        pause = _FIRST_PAUSE_SECONDS
        try:
            while verdict.awaits and loop.time() < end:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self._cluster.changed(revision)
                        # Most changes concern other objects, so the delay grows with each attempt.
                        await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                revision = self._cluster.state.revision
                verdict = self._judge(question.review)
            return self._reply(question, verdict)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(question.review, error)
        finally:
            self._room.leave(question.review.namespace)

    def _judge(self, review: Review) -> Verdict:
        if review.request is None:
            return NO_OPINION
        return judge(review.phase, review.request, self._cluster.state, self._profile())

    def _reply(self, question: _Question, verdict: Verdict) -> Reply:
        review = question.review
        body = encode(review, verdict)
        self._metrics.judged(review, verdict, time.perf_counter() - question.began)
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
        )
        return Reply(200, body)

    def _convert(self, ask: Ask) -> Reply | Awaitable[Reply]:
        if len(ask.body) > _ASIDE_BYTES:
            return self._convert_aside(ask)
        try:
            return self._converted(convert_review(ask.body), ask)
        except ReviewError as error:
            return self._unreadable(error)

    async def _convert_aside(self, ask: Ask) -> Reply:
        loop = asyncio.get_running_loop()
        try:
            return self._converted(
                await loop.run_in_executor(self._aside, partial(convert_review, ask.body)), ask
            )
        except ReviewError as error:
            return self._unreadable(error)

    def _converted(self, body: bytearray, ask: Ask) -> Reply:
        self._metrics.converted(time.perf_counter() - ask.began)
        return Reply(200, body)

    def _declined(self, why: str, beginning: bytes) -> Reply | None:
        """Return a denial of a refused request if the beginning of its body has the uid."""
        found = begin(beginning)
        if found is None or why not in _MESSAGES:
            return None
        return self._denied(why, found.uid, found.namespace, _MESSAGES[why])

    def _denied(self, why: str, uid: str, namespace: str, message: str) -> Reply:
        if (left_out := self._lines.take(why)) is not None:
            self._log.warning("not judged", why=why, uid=uid, namespace=namespace, left_out=left_out)
        return Reply(200, refusal(uid, REFUSED[why], f"Podium did not judge this request: {message}."))

    def _unreadable(self, error: ReviewError) -> Reply:
        said = str(error)[:_SAID]
        self._metrics.refused("review")
        if (left_out := self._lines.take("unreadable")) is not None:
            self._log.info("unreadable", reason=said, left_out=left_out)
        return Reply(400, f"{said}\n".encode(errors="replace"), _TEXT)

    def _failed(self, review: Review, error: Exception) -> Reply:
        self._metrics.refused("exception")
        self._log.error(
            "judging failed", uid=review.uid, phase=review.phase, kind=review.kind, exc_info=error
        )
        return Reply(500, b"internal error, see the log\n", _TEXT)


def _namespace(beginning: bytes) -> str:
    """Return the namespace, the owner of a review's bytes."""
    found = begin(beginning)
    return found.namespace if found is not None else ""
