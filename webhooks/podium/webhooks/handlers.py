"""Answers to the API server's questions: mutate (a gang included), validate, convert; bytes in, bytes out.

The state is read without awaiting, so a request sees one moment of the cluster and costs no task. Only when
it names what is not there yet (a PriorityClass applied together with its group) it waits for the cluster to
change, for a part of the time that the API server gives. A bug is 500 and counted, never a denial, so that
the API server does what failurePolicy says.
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
from podium.service.messages import JSON, RETRY, Ask, Reply, Route
from podium.view import View
from podium.webhooks.conversion import convert_review
from podium.webhooks.metrics import Metrics, outcome
from podium.webhooks.review import Review, ReviewError, decode, encode

# An object and its old self, each as large as etcd takes it and then some; as controller-runtime's limit.
ADMISSION_BYTES = 7 << 20
# An API server has a whole list converted at once, and fills its watch cache with pages of 10,000 objects.
CONVERSION_BYTES = 32 << 20
# Conversions of more than this, some 10 ms, leave the loop to admission.
_ASIDE_BYTES = 256 << 10
# How long to wait for what a request names, if half of its time is not less; and between two looks when the
# cluster keeps changing.
PATIENCE_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05
# No more of a request than this is repeated to whoever sent it.
_SAID = 300

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
    ask: Ask


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
        self._aside = ThreadPoolExecutor(1, "convert")

    def routes(self) -> dict[str, Route]:
        """Give what the server serves."""
        return {
            **{
                f"/{phase}": Route("POST", partial(self._admit, phase), JSON, ADMISSION_BYTES)
                for phase in Phase
            },
            # API servers have no client certificate for conversions, which tell nobody anything anyhow.
            "/convert": Route("POST", self._convert, JSON, CONVERSION_BYTES, anybody=True),
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
        except ReviewError as error:
            return self._unreadable(error)
        question = _Question(review, ask)
        try:
            revision = self._cluster.state.revision
            verdict = self._judge(review)
            if verdict.awaits:
                return self._patiently(question, verdict, revision)
            return self._reply(question, verdict)
        except Exception as error:  # noqa: BLE001 - a bug must be an answer, and not a denial
            return self._failed(review, error)

    async def _patiently(self, question: _Question, verdict: Verdict, revision: int) -> Reply:
        """Judge again when the cluster has changed, until nothing is missing or the patience is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + min(self._patience, (question.ask.deadline - loop.time()) / 2)
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

    def _judge(self, review: Review) -> Verdict:
        if review.request is None:
            return NO_OPINION
        return judge(review.phase, review.request, self._cluster.state, self._profile())

    def _reply(self, question: _Question, verdict: Verdict) -> Reply:
        review = question.review
        body = encode(review, verdict)
        self._metrics.judged(review, verdict, time.perf_counter() - question.ask.began)
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
            return self._converted(await loop.run_in_executor(self._aside, convert_review, ask.body), ask)
        except ReviewError as error:
            return self._unreadable(error)

    def _converted(self, body: bytes, ask: Ask) -> Reply:
        self._metrics.converted(time.perf_counter() - ask.began)
        return Reply(200, body)

    def _unreadable(self, error: ReviewError) -> Reply:
        said = str(error)[:_SAID]
        self._metrics.refused("review")
        self._log.info("unreadable", reason=said)
        return Reply(400, f"{said}\n".encode(errors="replace"), _TEXT)

    def _failed(self, review: Review, error: Exception) -> Reply:
        self._metrics.refused("exception")
        self._log.error(
            "judging failed", uid=review.uid, phase=review.phase, kind=review.kind, exc_info=error
        )
        return Reply(500, b"internal error, see the log\n", _TEXT)
