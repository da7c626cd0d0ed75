"""One of several replicas, of which one does the work: how it comes to lead, answers probes, and ends.

Every replica follows the cluster, so that the next leader has it all. One that loses the lease ends with an
error and is started anew: there is no better way to be sure that nothing of it goes on. It ends in an order:
the work first, then the lease is given back, then the rest.
"""

import asyncio
import os
import random as chance
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from podium.kube.connection import Connection
from podium.service import logs, probes
from podium.service.lease import Elector, steady
from podium.service.leaserecord import Terms
from podium.service.signals import Stop

Work = Callable[[], Coroutine[Any, Any, None]]


class Options(NamedTuple):
    """How the process reaches its cluster, where it answers probes, and whether others may lead.

    Without `lease` (namespace and name) it is the component's in the context's namespace.
    """

    kubeconfig: str | None = None
    context: str | None = None
    bind: str = "127.0.0.1"
    metrics_port: int = 0
    elects: bool = True
    lease: tuple[str, str] | None = None
    terms: Terms = Terms()


class Replica:
    """This replica of a component; `name` is its own among them, new with every process."""

    def __init__(
        self, connection: Connection, component: str, options: Options, log: FilteringBoundLogger
    ) -> None:
        self.name = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
        self.say = logs.teller(log)
        self._options = options
        self._log = log
        self._elector: Elector | None = None
        if options.elects:
            namespace, name = options.lease or (connection.namespace, component)
            self._elector = Elector(
                connection,
                namespace,
                name,
                self.name,
                terms=options.terms,
                clock=steady,
                now=utc_now,
                sleep=asyncio.sleep,
                random=chance.random,
                say=self.say,
            )

    @property
    def elects(self) -> bool:
        """Whether another may have led before."""
        return self._elector is not None

    @property
    def orderly(self) -> bool:
        """Whether who led before ended in order, as far as the lease tells that this replica holds.

        It was given back, or there was none: then nobody led before, or it was deleted, see `first`. Without
        a lease nobody knows.
        """
        return self._elector is not None and not self._elector.expired

    @property
    def first(self) -> bool:
        """Whether there was no lease before this replica made one."""
        return self._elector is not None and self._elector.made

    @property
    def found(self) -> str:
        """The note of a leader before this one that did not give its lease back; empty for none."""
        return "" if self._elector is None else self._elector.found

    def note(self, text: str) -> None:
        """Keep a text in the Lease as long as it is set; see Elector.note."""
        if self._elector is not None:
            self._elector.note(text)

    def end_in_order(self, *, orderly: bool) -> None:
        """Give the lease back at the end, or not: then this replica has not ended in order to who follows."""
        if self._elector is not None:
            self._elector.keeps = not orderly

    def remaining(self) -> float:
        """Give the seconds for which this replica may still write."""
        return inf if self._elector is None else self._elector.remaining()

    async def serve(
        self,
        stop: Stop,
        lead: Work,
        *,
        ready: Work,
        others: Mapping[str, Work],
        missing: Callable[[], list[str]],
        registry: CollectorRegistry,
        undecodable: probes.Undecodables,
        stuck: probes.Stuck = probes.never_stuck,
    ) -> None:
        """Work until asked to stop: `lead` while this replica leads, `others` (by name) for as long as it is.

        `ready` ends once it may lead; `missing` names what keeps the process from being ready,
        `undecodable` the objects that cannot be decoded, and `stuck` work that does not end.

        Raises PodiumError when it cannot begin, and when the lease is lost.
        """
        port = probes.server(missing, registry, undecodable, stuck)
        await port.start(self._options.bind, self._options.metrics_port)
        self._log.info("serving", metrics_port=port.port)
        try:
            await self._work(stop, lead, ready, others)
        finally:
            await port.close()

    async def _work(self, stop: Stop, lead: Work, ready: Work, others: Mapping[str, Work]) -> None:
        leading = asyncio.create_task(self._lead(lead, ready), name="leading")
        tasks = [asyncio.create_task(other(), name=name) for name, other in others.items()]
        asked = asyncio.create_task(stop.asked.wait(), name="stop")
        try:
            await asyncio.wait((leading, *tasks, asked), return_when=asyncio.FIRST_COMPLETED)
            # None ends by itself: a process that cannot do its work had better say so and end.
            for work in (leading, *tasks):
                if work.done():
                    work.result()
            self._log.info("stopping")
            leading.cancel()
            await asyncio.wait((leading,))
            if not leading.cancelled():
                leading.result()
            self._log.info("stopped")
        finally:
            for task in (leading, *tasks, asked):
                task.cancel()
            await asyncio.gather(leading, *tasks, asked, return_exceptions=True)

    async def _lead(self, lead: Work, ready: Work) -> None:
        # Who may not read what it takes must not hold the lease against one who may.
        await ready()
        if self._elector is None:
            await lead()
        else:
            await self._elector.run(lead)


def utc_now() -> datetime:
    """Tell the wall's time."""
    return datetime.now(UTC)
