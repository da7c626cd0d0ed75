"""The reconciler process: what is wired to what, and how it ends.

Nothing is decided here. Every replica follows the cluster, so that the next leader has it all; one leads. A
replica that loses the lease ends with an error and is started anew: there is no better way to be sure that
nothing of it goes on.
"""

import asyncio
import os
import random as chance
import secrets
import socket
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

from structlog.typing import FilteringBoundLogger

from podium.api.membership import GroupKey
from podium.api.minors import WORKLOAD_VERSIONS, minor_of
from podium.api.reads import Kind
from podium.controllers.keep import essential
from podium.controllers.manager import Manager, Rules
from podium.controllers.metrics import Metrics
from podium.controllers.queue import Queue
from podium.controllers.writer import STATUS_MANAGER, Writer
from podium.explain import Server
from podium.gangs import FOLLOWED
from podium.kube.cluster import Cluster
from podium.kube.connection import Connection, connect
from podium.kube.discovery import Served
from podium.kube.events import Recorder
from podium.service import logs, probes
from podium.service import metrics as service_metrics
from podium.service.lease import Elector, Terms, steady
from podium.service.signals import Stop, stopping


class Settings(NamedTuple):
    """What the command line and the file say; without `lease` (namespace and name) nobody else leads."""

    kubeconfig: str | None = None
    context: str | None = None
    bind: str = "127.0.0.1"
    metrics_port: int = 9091
    elects: bool = True
    lease: tuple[str, str] | None = None
    terms: Terms = Terms()
    rules: Rules = Rules()


async def run(settings: Settings, log: FilteringBoundLogger) -> None:
    """Reconcile until told to stop. Raises PodiumError when it cannot begin, and when the lease is lost."""
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        connection = await stack.enter_async_context(connect(settings.kubeconfig, settings.context))
        process = _Process(settings, connection, log)
        stack.push_async_callback(process.close)
        await process.start()
        await process.serve(stop)


class _Process:
    """The parts, once each."""

    def __init__(self, settings: Settings, connection: Connection, log: FilteringBoundLogger) -> None:
        self._settings = settings
        self._log = log
        self._say = logs.teller(log)
        registry = service_metrics.new_registry()
        self._metrics = Metrics(registry)
        rules = settings.rules
        self._cluster = Cluster(connection, kinds(rules), keep=essential, only=wanted, say=self._say)
        replica = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
        self._elector = self._new_elector(connection, replica) if settings.elects else None
        self._recorder = Recorder(
            connection,
            STATUS_MANAGER,
            replica,
            clock=steady,
            now=_now,
            sleep=asyncio.sleep,
            random=chance.random,
            say=self._say,
            counted=self._metrics.emitted,
        )
        self._manager = Manager(
            self._cluster,
            Writer(connection, self._remaining, self._metrics.wrote).perform,
            rules,
            self._metrics,
            self._recorder.emit,
            server=self._server_kind,
            new_queue=self._new_queue,
            clock=steady,
            now=_now,
            say=self._say,
        )
        self._probes = probes.server(self._missing, registry)
        self._metrics.read(
            divergent_groups=lambda: self._manager.divergent()[0],
            divergent_pods=lambda: self._manager.divergent()[1],
            depth=lambda: self._manager.depth,
            leads=lambda: self._remaining() > 0,
            cache_ages=self._cluster.ages,
        )

    async def start(self) -> None:
        """Answer probes. Raises PodiumError."""
        await self._probes.start(self._settings.bind, self._settings.metrics_port)
        self._log.info("serving", metrics_port=self._probes.port)

    async def serve(self, stop: Stop) -> None:
        """Work until asked to stop: the workers end first, then the lease is given back, then the rest."""
        leading = asyncio.create_task(self._lead(), name="leading")
        others = [
            asyncio.create_task(self._cluster.run(), name="cluster"),
            asyncio.create_task(self._recorder.run(), name="events"),
        ]
        asked = asyncio.create_task(stop.asked.wait(), name="stop")
        try:
            await asyncio.wait((leading, *others, asked), return_when=asyncio.FIRST_COMPLETED)
            # None ends by itself: a process that cannot do its work had better say so and end.
            for work in (leading, *others):
                if work.done():
                    work.result()
            self._log.info("stopping")
            leading.cancel()
            await asyncio.wait((leading,))
            if not leading.cancelled():
                leading.result()
            self._log.info("stopped")
        finally:
            for task in (leading, *others, asked):
                task.cancel()
            await asyncio.gather(leading, *others, asked, return_exceptions=True)

    async def close(self) -> None:
        """Let go of the port."""
        await self._probes.close()

    async def _lead(self) -> None:
        # Who may not read what it takes must not hold the lease against one who may.
        await self._cluster.ready()
        if self._elector is None:
            await self._manager.lead()
        else:
            await self._elector.run(self._manager.lead)

    def _remaining(self) -> float:
        return inf if self._elector is None else self._elector.remaining()

    def _new_elector(self, connection: Connection, replica: str) -> Elector:
        namespace, name = self._settings.lease or (connection.namespace, STATUS_MANAGER)
        return Elector(
            connection,
            namespace,
            name,
            replica,
            terms=self._settings.terms,
            clock=steady,
            now=_now,
            sleep=asyncio.sleep,
            random=chance.random,
            say=self._say,
        )

    def _new_queue(self) -> Queue[GroupKey]:
        return Queue(
            clock=steady,
            sleep=asyncio.sleep,
            random=chance.random,
            waited=self._metrics.waited,
            failed=self._metrics.failed,
            say=self._say,
        )

    def _server_kind(self) -> Server:
        discovery = self._cluster.discovery
        minor = minor_of(discovery.server) if discovery is not None else None
        spoken = max(WORKLOAD_VERSIONS) if minor is None else minor
        return Server(spoken, f"1.{spoken}")

    def _missing(self) -> list[str]:
        """Name what keeps us from being ready."""
        return self._cluster.waits()


def kinds(rules: Rules) -> set[Kind]:
    """Give what is followed."""
    followed = {Kind.POD, Kind.POD_GROUP, Kind.PRIORITY_CLASS}
    if rules.protection or rules.auto_groups:
        followed |= {Kind.NAMESPACE, Kind.OWNER}
    return followed


def wanted(served: Served) -> bool:
    """Say whether a kind is followed as it is served: of owners, those that gangs have."""
    return served.read.kind is not Kind.OWNER or (served.api_version, served.kind) in FOLLOWED


def _now() -> datetime:
    return datetime.now(UTC)
