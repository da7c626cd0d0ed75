"""Answers to the API server's questions: mutate (a gang included), validate, convert; bytes in, bytes out.

The state is read without awaiting, so a request sees one moment of the cluster and costs no task. Only when
it names what is not there yet (a PriorityClass applied together with its group) it waits for the cluster to
change, for a part of the time that the API server gives. A bug is 500 and counted, never a denial, so that
the API server does what failurePolicy says.

A request that is refused for its size or for want of room is denied: an AdmissionReview with `allowed:
false`. The API server takes any other answer (413, 429, 500, a reset) for a call that failed, and lets the
request through where failurePolicy is Ignore (apiserver,
pkg/admission/plugin/webhook/validating/dispatcher.go: ErrCallingWebhook). Only silence fails open.
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

# An API server takes 3 MiB of a client (MaxRequestBodyBytes), writes each `<`, `>` and `&` of it as six
# bytes, and sends an update's object twice; and 1 MiB for all else: user, options. What a client can add
# beyond that (defaults and managedFields, which grow with the number of fields) is not escaped, and what
# etcd stores, 1.5 MiB by default, fits twelve times: an object that is too large for a review cannot be
# stored. It is denied.
ADMISSION_BYTES = 2 * 6 * (3 << 20) + (1 << 20)
# A list of 15,000 groups: an API server has each object converted by itself, but may send a list.
CONVERSION_BYTES = 32 << 20
# Two reviews of the greatest size, and the usual ones of some KiB beside them.
ADMISSION = Budget("admission", 2 * ADMISSION_BYTES + (22 << 20), PLACES, 1000)
# Two lists of the greatest size. Conversion is for every client, so it has few connections and a queue that
# is short.
CONVERSION = Budget("conversion", 2 * CONVERSION_BYTES, 32, 250)
# Conversions of more than this, some 10 ms, leave the loop to admission.
_ASIDE_BYTES = 256 << 10
# How long to wait for what a request names, if half of its time is not less; and between two looks when the
# cluster keeps changing.
PATIENCE_SECONDS = 0.5
# A larger request waits for nothing: what it is judged by is kept while it waits.
PATIENT_BYTES = 32 << 10
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05
# No more of a request than this is repeated to its sender.
_SAID = 300
# Lines of a kind that the log takes in a minute, where a client decides how many there are.
_LINES_A_MINUTE = 10
_MESSAGES = {
    "large body": f"its review has more than {ADMISSION_BYTES >> 20} MiB. Make the object smaller",
    "connections": "the webhook has too many connections. Try again",
    "memory": "the webhook holds too many large requests. Try again",
    "waiting": "too many requests wait in the webhook. Try again",
    "slow body": "it did not come in time. Try again",
}

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class LiveView(Protocol):
    """The cluster as it is now, and word of changes."""

    @property
    def state(self) -> View:
        """What is known."""

    @property
    def synced(self) -> bool:
        """Whether all that is wanted has been read once."""

    async def changed(self, revision: int) -> None:
        """Return when the state's revision is not this one (any more)."""


class _Question(NamedTuple):
    review: Review
    deadline: float
    began: float


class Handlers:
    """Judges with what `cluster` knows and `profile` says at the time."""

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
        """Give what the server serves."""
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
            # API servers have no client certificate for conversions, which tell nobody anything anyhow. So a
            # conversion proves nothing of a connection.
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
        """Let go of the thread for large conversions."""
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _admit(self, phase: Phase, ask: Ask) -> Reply | Awaitable[Reply]:
        if not self._cluster.synced:
            # An API server asks again, where it would take a refusal for an answer.
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
        except Exception as error:  # noqa: BLE001 - a bug must be an answer, and not a denial
            return self._failed(review, error)

    async def _patiently(self, question: _Question, verdict: Verdict, revision: int) -> Reply:
        """Judge again when the cluster has changed, until nothing is missing or the patience is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._patience, (question.deadline - loop.time()) / 2)
        pause = _FIRST_PAUSE_SECONDS
        try:
            while verdict.awaits and loop.time() < end:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end):
                        await self._cluster.changed(revision)
                        # Most changes are of something else: the first few are looked at at once.
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
        """Deny a request that the server refuses, if what has come of it says which it is."""
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
    """Give the owner of a review's bytes."""
    found = begin(beginning)
    return found.namespace if found is not None else ""
