"""One of several replicas, of which one leads: leader election, probes and an orderly end.

Every replica follows the cluster, so that the next leader has a complete state. A replica that loses the
lease exits with an error and is restarted, the safest way to stop all of its work. The order at the end is:
stop the work, release the lease, stop the rest.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from math import inf
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from podium.kube.connection import Connection
from podium.runtime import health, logs
from podium.runtime.host import LOOPBACK, Host
from podium.runtime.leaderelection import Elector
from podium.runtime.leaserecord import Terms
from podium.runtime.signals import Stop

Work = Callable[[], Coroutine[Any, Any, None]]


class ManagerOptions(NamedTuple):
    """The kubeconfig of the process, where it serves probes, and whether it takes part in leader election.

    `probes` is a listening socket; the default is any free port. `lease` is namespace and name; the default
    is the component's name in the context's namespace.
    """

    kubeconfig: str | None = None
    context: str | None = None
    probes: socket.socket | None = None
    elects: bool = True
    lease: tuple[str, str] | None = None
    terms: Terms = Terms()


class ReplicaManager:
    """This replica of a component; `name` identifies it among the replicas, and is new in every process."""

    def __init__(
        self,
        connection: Connection,
        component: str,
        options: ManagerOptions,
        host: Host,
        log: FilteringBoundLogger,
    ) -> None:
        self.name = f"{os.environ.get('POD_NAME') or host.name()}_{host.token()}"
        self.log_event = logs.event_logger(log)
        self._options = options
        self._host = host
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
                clock=host.clock,
                now=host.now,
                sleep=asyncio.sleep,
                random=host.random,
                log_event=self.log_event,
            )

    @property
    def elects(self) -> bool:
        """Return whether leader election is on, so that another replica may have led before."""
        return self._elector is not None

    @property
    def orderly(self) -> bool:
        """Return whether the former leader ended in order, as far as the Lease of this replica shows.

        True if the lease was released, or did not exist: no replica led before, or the Lease was deleted, see
        `first`. False without leader election, because it is unknown.
        """
        return self._elector is not None and not self._elector.expired

    @property
    def created_lease(self) -> bool:
        """Return whether no Lease existed before this replica created it."""
        return self._elector is not None and self._elector.made

    @property
    def found(self) -> str:
        """Return the note of a former leader that did not release its lease; empty for none."""
        return "" if self._elector is None else self._elector.found

    def set_note(self, text: str) -> None:
        """Keep a text in the Lease while it is set; see Elector.note."""
        if self._elector is not None:
            self._elector.set_note(text)

    def end_in_order(self, *, orderly: bool) -> None:
        """Release the lease at the end, or keep it as a replica that did not end in order does."""
        if self._elector is not None:
            self._elector.keeps = not orderly

    def remaining(self) -> float:
        """Return the seconds in which this replica may still write."""
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
        undecodable: health.Undecodables,
        stuck: health.Stuck = health.never_stuck,
    ) -> None:
        """Work until asked to stop: `lead` while this replica leads, `others` (by name) the whole time.

        `ready` returns once the replica may lead. `missing` returns the reasons why the process is not ready,
        `undecodable` the undecodable objects, and `stuck` a line about work that does not end.

        Raises PodiumError when the process cannot start, and when the lease is lost.
        """
        port = health.server(missing, registry, undecodable, stuck)
        await port.start(self._options.probes or self._host.listen(LOOPBACK, 0))
        self._log.info("serving", metrics_port=port.port)
        try:
            await self._lead_until_stopped(stop, lead, ready, others)
        finally:
            await port.close()

    async def _lead_until_stopped(
        self, stop: Stop, lead: Work, ready: Work, others: Mapping[str, Work]
    ) -> None:
        leading = asyncio.create_task(self._lead(lead, ready), name="leading")
        tasks = [asyncio.create_task(other(), name=name) for name, other in others.items()]
        asked = asyncio.create_task(stop.asked.wait(), name="stop")
        try:
            await asyncio.wait((leading, *tasks, asked), return_when=asyncio.FIRST_COMPLETED)
            # No task ends by itself: a process that cannot do its work must fail.
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
        # A replica without the rights to read must not hold the lease while another replica has them.
        await ready()
        if self._elector is None:
            await lead()
        else:
            await self._elector.run(lead)
