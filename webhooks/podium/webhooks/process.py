"""The webhook process: its parts, the order of their start, and their end.

This module makes no decisions; the order is what matters. A certificate and the first lists come before
registration, because a registered webhook must be able to answer. Registration comes before readiness. On
SIGTERM the process is unready before any part closes. If its Deployment is turned off, the registration is
removed before the last answer. The certificates are kept valid until the last answer.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from structlog.typing import FilteringBoundLogger

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP, PodGroup, Workload
from podium.api.meta import ObjectMeta
from podium.api.minors import group_minor, minor_of
from podium.api.reads import Kind
from podium.cluster.state import Readable
from podium.errors import PodiumError
from podium.kube.cache import InformerCache
from podium.kube.connection import Connection
from podium.kube.discovery import Discovery
from podium.kube.timeouts import within
from podium.rules.context import Profile
from podium.rules.policy import Policy
from podium.runtime import health, logs
from podium.runtime import metrics as service_metrics
from podium.runtime.garbage import short_collections
from podium.runtime.host import LOOPBACK, THIS_MACHINE, Host
from podium.runtime.logs import LINES_A_MINUTE, Seldom
from podium.runtime.messages import Limits
from podium.runtime.server import HTTPServer
from podium.runtime.signals import Stop, stopping
from podium.webhooks.bindings import Bindings
from podium.webhooks.handlers import Handlers
from podium.webhooks.metrics import WebhookMetrics
from podium.webhooks.publisher import BundlePublisher
from podium.webhooks.registration import Endpoint, Options
from podium.webhooks.renewal import CertificateRotator, CertificateWatcher
from podium.webhooks.rotation import USUAL, Periods
from podium.webhooks.stores import FolderStore, SecretStore
from podium.webhooks.tls import Serving

# The kinds that the rules look up; pods are judged without other pods.
KINDS = (Kind.PRIORITY_CLASS, Kind.POD_GROUP, Kind.WORKLOAD)

_WITHDRAW_SECONDS = 8.0
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def transform(obj: Readable) -> Readable:
    """Return the part of an object to cache: of a group or Workload, spec and identity only.

    Annotations are most of an applied group: 10,000 groups need 9 MiB instead of 22.
    """
    if not isinstance(obj, PodGroup | Workload):
        return obj
    meta = obj.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
        deletionTimestamp=meta.deletionTimestamp,
    )
    if isinstance(obj, Workload):
        return msgspec.structs.replace(obj, metadata=kept)
    return msgspec.structs.replace(obj, metadata=kept, conditions=())


class Folder(NamedTuple):
    """Our own certificates in a local folder."""

    path: Path


class Secret(NamedTuple):
    """Our own certificates in a Secret that replicas share."""

    namespace: str
    name: str


class Provided(NamedTuple):
    """Certificates that another program renews in a folder."""

    path: Path


class WebhookSettings(NamedTuple):
    """The settings from the command line.

    `probes` is a listening socket; the default is any free port. `register` is None if another client
    registers the webhook. `deployment` is the process's own.
    """

    certificates: Folder | Secret | Provided
    kubeconfig: str | None = None
    context: str | None = None
    bind: str = LOOPBACK
    port: int = 9443
    probes: socket.socket | None = None
    host_names: tuple[str, ...] = ()
    client_ca: Path | None = None
    client_name: str | None = None
    register: Endpoint | None = None
    deployment: tuple[str, str] | None = None
    options: Options = Options()
    policy: Policy = Policy()
    drain_seconds: float = 5.0
    limits: Limits = Limits()
    periods: Periods = USUAL


async def run(settings: WebhookSettings, log: FilteringBoundLogger, host: Host = THIS_MACHINE) -> None:
    """Serve until asked to stop, and end in order. Raises PodiumError when the process cannot start."""
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stopping())
        stack.enter_context(short_collections())
        connection = await stack.enter_async_context(host.connect(settings.kubeconfig, settings.context))
        process = _WebhookProcess(settings, connection, host, log)
        stack.push_async_callback(process.close)
        await process.serve(await process.start(), stop)


class _WebhookProcess:
    """The parts of the process, one of each."""

    def __init__(
        self, settings: WebhookSettings, connection: Connection, host: Host, log: FilteringBoundLogger
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._host = host
        self._log = log
        self._log_event = logs.event_logger(log)
        registry = service_metrics.new_registry()
        # A registered webhook is called for Podium's resources, so they exist or will exist.
        self._groups = (PODIUM_GROUP,) if settings.register is not None else ()
        self._cluster = InformerCache(
            connection,
            KINDS,
            transform=transform,
            groups=self._groups,
            clock=host.clock,
            random=host.random,
            log_event=self._log_event,
        )
        service_metrics.read_cluster(registry, self._cluster)
        self._metrics = WebhookMetrics(registry)
        self._serving = Serving(
            _certificate_names(settings), client_ca=settings.client_ca, client_name=settings.client_name
        )
        profiles = _Profiles(lambda: self._cluster.discovery, settings.policy)
        self._handlers = Handlers(self._cluster, profiles, self._metrics, log, clock=host.clock)
        lines = Seldom(LINES_A_MINUTE, 60.0, host.clock)
        bindings = Bindings(connection.get, log, lines, self._handlers.unreadable)
        self._server = HTTPServer(
            {**self._handlers.routes(), **bindings.routes()},
            settings.limits,
            self._metrics.count_refusal,
            context=self._serving.context,
            accepts=self._serving.accepts,
        )
        self._probes = health.server(self._missing, registry, self._cluster.undecodable)
        self._metrics.read(
            in_flight=lambda: self._server.load.in_flight,
            expiries=self._expiries,
        )
        self._publisher: BundlePublisher | None = None
        if settings.register is not None:
            self._publisher = BundlePublisher(
                connection,
                settings.register,
                settings.options,
                settings.policy,
                log_event=self._log_event,
                deployment=settings.deployment,
            )
        self._renewal: CertificateRotator | CertificateWatcher | None = None

    async def start(self) -> CertificateRotator | CertificateWatcher:
        """Listen, get a certificate, and log the ports. Raises PodiumError."""
        settings = self._settings
        await self._probes.start(settings.probes or self._host.listen(settings.bind, 0))
        await self._server.start(self._host.listen(settings.bind, settings.port))
        renewal = self._new_renewal()
        await renewal.load_pair()
        self._renewal = renewal
        self._log.info("serving", port=self._server.port, metrics_port=self._probes.port)
        return renewal

    async def serve(self, renewal: CertificateRotator | CertificateWatcher, stop: Stop) -> None:
        """Answer until asked to stop, then drain; a second signal ends the draining."""
        cluster = asyncio.create_task(self._cluster.run())
        renewing = asyncio.create_task(self._run_renewal(renewal))
        asked = asyncio.create_task(stop.asked.wait())
        works = (cluster, renewing)
        try:
            await asyncio.wait((*works, asked), return_when=asyncio.FIRST_COMPLETED)
            # Neither task ends by itself: a process that cannot do its work must fail.
            for work in works:
                if work.done():
                    work.result()
            self._log.info("draining", seconds=self._settings.drain_seconds)
            await self._drain(stop)
            self._log.info("stopped")
        finally:
            asked.cancel()
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    async def close(self) -> None:
        """Close ports and threads."""
        await self._server.close()
        await self._probes.close()
        self._handlers.close()

    async def _run_renewal(self, renewal: CertificateRotator | CertificateWatcher) -> None:
        await self._cluster.ready()
        await renewal.run()

    async def _drain(self, stop: Stop) -> None:
        drain = asyncio.create_task(self._end())
        insisted = asyncio.create_task(stop.insisted.wait())
        await asyncio.wait((drain, insisted), return_when=asyncio.FIRST_COMPLETED)
        insisted.cancel()
        drain.cancel()
        await asyncio.wait((drain,))

    async def _end(self) -> None:
        """Remove the registration while the process serves, then serve until clients have left."""
        self._server.draining = True
        await self._withdraw()
        await self._server.drain(self._settings.drain_seconds)

    async def _withdraw(self) -> None:
        """Remove the registration if no process follows. It is quick, or the administrator removes it."""
        if self._publisher is None:
            return
        try:
            if await within(_WITHDRAW_SECONDS, self._publisher.withdraw()):
                self._log.info("registration removed")
        except (PodiumError, TimeoutError) as error:
            # If the account's rights are deleted already, the registration is deleted with them.
            self._log.warning("registration not removed", error=str(error))

    def _missing(self) -> list[str]:
        """Return the reasons why the process is not ready."""
        expiry, discovery = self._serving.expiry, self._cluster.discovery
        missing = {
            "Podium's PodGroups are not served": all(
                discovery is not None and discovery.serves(group, "PodGroup") for group in self._groups
            ),
            "the certificate has expired": expiry is not None and expiry > self._host.now(),
            "the webhooks are not registered": self._renewal is not None and self._renewal.registered,
            "draining": not self._server.draining,
        }
        return self._cluster.waits() + [reason for reason, fine in missing.items() if not fine]

    def _expiries(self) -> Mapping[str, float]:
        expiry = self._serving.expiry
        return {} if expiry is None else {"serving": expiry.timestamp()}

    def _new_renewal(self) -> CertificateRotator | CertificateWatcher:
        settings = self._settings
        kept = settings.certificates
        if isinstance(kept, Provided):
            return CertificateWatcher(
                kept.path,
                self._serving,
                self._publisher,
                now=self._host.now,
                monotonic=self._host.clock,
                jitter=self._host.random,
                log_event=self._log_event,
            )
        store = (
            FolderStore(kept.path)
            if isinstance(kept, Folder)
            else SecretStore(self._connection, kept.namespace, kept.name)
        )
        return CertificateRotator(
            store,
            self._serving,
            self._publisher,
            names=_certificate_names(settings),
            replica=os.environ.get("POD_NAME") or f"{self._host.name()}:{self._server.port}",
            address=(_address(settings), self._server.port),
            periods=settings.periods,
            now=self._host.now,
            monotonic=self._host.clock,
            jitter=self._host.random,
            log_event=self._log_event,
        )


class _Profiles:
    """The rules' profile, computed again when discovery changes."""

    def __init__(self, discovery: Callable[[], Discovery | None], policy: Policy) -> None:
        self._discovery = discovery
        self._policy = policy
        self._seen: Discovery | None = None
        self._profile = Profile(kubernetes="1.37", rules="podium", policy=policy)

    def __call__(self) -> Profile:
        """Return the profile of the API server at its last discovery."""
        discovery = self._discovery()
        if discovery is not None and discovery is not self._seen:
            self._seen = discovery
            minor = minor_of(discovery.server)
            self._profile = Profile(
                kubernetes="1.37" if minor is None else group_minor(minor).name,
                rules="podium",
                workload_api=discovery.serves(NATIVE_GROUP, "PodGroup"),
                policy=self._policy,
            )
        return self._profile


def _address(settings: WebhookSettings) -> str:
    """Return where other replicas reach this one. Raises PodiumError if no setting has the address."""
    address = os.environ.get("POD_IP") or settings.bind
    # Under an unspecified address a replica would reach itself, and prove nothing about the others.
    if isinstance(settings.certificates, Secret) and address in _EVERYWHERE:
        raise PodiumError(
            f"--bind {address}: replicas that share a Secret must reach each other. Set POD_IP in the "
            "environment to the address of this replica"
        )
    return address


def _certificate_names(settings: WebhookSettings) -> tuple[str, ...]:
    """Return the names in the certificate: those that API servers use, and `host_names`.

    For a certificate of another program, only `host_names` are known.
    """
    if isinstance(settings.certificates, Provided):
        return settings.host_names
    endpoint = settings.register
    names: list[str] = []
    if endpoint is not None and endpoint.service is not None:
        namespace, name = endpoint.service
        names += [f"{name}.{namespace}.svc", f"{name}.{namespace}", name]
    if endpoint is not None and endpoint.url is not None:
        names.append(urlsplit(endpoint.url).hostname or "")
    names += settings.host_names
    return tuple(dict.fromkeys(names)) or (settings.bind,)
