"""The I/O of the doctor: send each request to the API server once, with a timeout, and return the answers.

Nothing is written. Requests other than get and list leave no trace: a SubjectAccessReview, and the creation
of one group as a dry run. There are no retries on a busy server, and a timeout is an answer too.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from podium import jsontext
from podium.api.groups import PODIUM_GROUP
from podium.documents.split import split
from podium.errors import PodiumError
from podium.groups.autogroups import API_VERSION
from podium.kube.connection import Connection, RefusedError
from podium.kube.connection import RawResponse as Reply
from podium.kube.discovery import version_of
from podium.kube.reading import NamedUndecodable
from podium.kube.timeouts import within
from podium.ops.doctor import neighbours, registration, rights, server
from podium.ops.doctor.facts import (
    DEFINITIONS,
    Answer,
    Clock,
    ClusterFacts,
    CreateDryRun,
    Document,
    Installation,
    Probe,
    Right,
    UnreadDocument,
)
from podium.text import cut, one_line

K = TypeVar("K")

_SECONDS = 10.0
# If a network policy drops packets to a pod, there is never an answer.
_PROBE_SECONDS = 3.0
_AT_ONCE = 8
# More replicas than an installation has, and the maximum number of webhooks to check.
_MOST = 12
# Maximum length of a refusal in bytes; some quote a whole certificate.
_LONGEST = 300
# A sample of a process's metrics: the resource of a cache, and its age in seconds.
_AGE = re.compile(rb'^podium_cache_age_seconds\{resource="([^"]*)"\} (\S+)$', re.MULTILINE)
_OLDER = f"{PODIUM_GROUP}/v1alpha2"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWN_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def gather(
    connection: Connection, installation: Installation, *, cli: str, now: Callable[[], datetime]
) -> ClusterFacts:
    """Return the facts of a cluster. Raises PodiumError if the server does not return its version."""
    before = now()
    try:
        reply = await within(_SECONDS, connection.answer("GET", "/version"))
    except TimeoutError:
        raise PodiumError(f"{connection.server}: GET /version: no answer within {_SECONDS:.0f} s") from None
    clock = Clock(before + (now() - before) / 2, _date(reply.headers))
    if reply.code != 200:
        raise RefusedError(connection.server, "GET /version", reply.code, "", reply.message)
    version = version_of(connection.server, reply.body)
    sender = _RequestSender(connection)
    facts = ClusterFacts(
        installation=installation,
        cli=cli,
        version=str(version),
        clock=clock,
        answers=await sender.read(installation.paths()),
    )
    facts = msgspec.structs.replace(facts, scheduler=_settings(facts))
    answers = await sender.read(_further(facts))
    needed = rights.wanted(installation, facts.processes)
    reviews = {right: rights.review(right, installation.namespace) for right in needed}
    return msgspec.structs.replace(
        facts,
        answers={**facts.answers, **answers},
        rights={
            right: _allowed(answer)
            for right, answer in {
                **await sender.post(_REVIEWS, reviews),
                **await sender.own_rights(facts),
            }.items()
        },
        probes=await sender.probes(facts),
        trial=await sender.trial(facts),
    )


class _RequestSender:
    """Sends several requests at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def read(self, paths: Iterable[str]) -> dict[str, Answer]:
        """Return the answers at some paths; of a Secret only the certificates."""
        replies = await self._all({path: ("GET", path, None) for path in paths})
        return {path: _document(path, reply) for path, reply in replies.items()}

    async def post(self, path: str, bodies: Mapping[K, Document]) -> dict[K, Answer]:
        """Send some documents to a path, and return the answers."""
        replies = await self._all({key: ("POST", path, body) for key, body in bodies.items()})
        return {key: _document(path, reply) for key, reply in replies.items()}

    async def own_rights(self, facts: ClusterFacts) -> dict[Right, Answer]:
        """Return the answers about the user's rights to install, if nothing is installed."""
        if facts.processes:
            return {}
        # Most users who install may do everything, so one request asks for that before many ask for each.
        answers = await self.post(_OWN_REVIEWS, {rights.ALL: rights.own_review(rights.ALL)})
        if _allowed(answers[rights.ALL]) is True:
            return answers
        needed = rights.installing(facts.installation)
        return await self.post(_OWN_REVIEWS, {right: rights.own_review(right) for right in needed})

    async def probes(self, facts: ClusterFacts) -> dict[str, Probe]:
        """Return the answers of the processes, through the API server's proxy."""
        ports = {pod["metadata"]["name"]: _metrics_port(pod) for pod in facts.running_pods[:_MOST]}
        pods = {name: f"{facts.installation.itself}/pods/{name}:{port}/proxy" for name, port in ports.items()}
        ready = await self._ask(pods, "/readyz")
        answering = {name: pods[name] for name in pods if isinstance(ready[name], Reply)}
        metrics = await self._ask(answering, "/metrics")
        undecodable = await self._ask(answering, "/undecodable")
        return {
            name: Probe(
                {} if isinstance(reply, Reply) and reply.code == 200 else _is_denied(reply),
                _ages(metrics.get(name)),
                _named(undecodable.get(name)),
            )
            for name, reply in ready.items()
        }

    async def trial(self, facts: ClusterFacts) -> CreateDryRun | None:
        """Create a group in a dry run, in the version that needs conversion if it is served."""
        definition = facts.document(f"{DEFINITIONS}/podgroups.{PODIUM_GROUP}")
        if definition is None:
            return None
        served = {
            served_version["name"]
            for served_version in definition["spec"]["versions"]
            if served_version["served"]
        }
        version = _OLDER if _OLDER.rpartition("/")[2] in served else API_VERSION
        there = facts.document(facts.installation.itself) is not None
        namespace = facts.installation.namespace if there else "default"
        group = {
            "apiVersion": version,
            "kind": "PodGroup",
            "metadata": {"generateName": "podium-doctor-"},
            "spec": {"schedulingPolicy": {"basic": {}}},
        }
        path = f"/apis/{version}/namespaces/{namespace}/podgroups?dryRun=All"
        return CreateDryRun(version, (await self.post(path, {"": group}))[""])

    async def _ask(self, pods: Mapping[str, str], path: str) -> dict[str, Reply | UnreadDocument]:
        """Send a request to processes by name, at a path behind the proxy path of each."""
        asked = {name: ("GET", f"{proxy}{path}", None) for name, proxy in pods.items()}
        return await self._all(asked, _PROBE_SECONDS)

    async def _all(
        self, asked: Mapping[K, tuple[str, str, Document | None]], seconds: float = _SECONDS
    ) -> dict[K, Reply | UnreadDocument]:
        replies = await asyncio.gather(*(self._one(*call, seconds) for call in asked.values()))
        return dict(zip(asked, replies, strict=True))

    async def _one(
        self, method: str, path: str, body: Document | None, seconds: float
    ) -> Reply | UnreadDocument:
        async with self._room:
            try:
                return await within(seconds, self._connection.answer(method, path, body))
            except TimeoutError:
                return UnreadDocument(0, f"no answer within {seconds:.0f} s")
            except PodiumError as error:
                return UnreadDocument(0, str(error))


def _further(facts: ClusterFacts) -> set[str]:
    """Return the paths to read next, from what was found."""
    services = {webhook.service for webhook in neighbours.in_our_way(facts) if webhook.service is not None}
    services |= {
        (facts.installation.namespace, service["metadata"]["name"])
        for service in facts.installation.documents_of("Service")
    }
    return {
        *server.native_paths(facts),
        *neighbours.mutator_paths(facts),
        *(registration.slices_path(*service) for service in sorted(services)[:_MOST]),
        *filter(None, (registration.secret_path(facts), neighbours.nodes_path(facts))),
        *filter(None, (neighbours.devices_path(facts),)),
    }


def _document(path: str, reply: Reply | UnreadDocument) -> Answer:
    if isinstance(reply, UnreadDocument) or not 200 <= reply.code < 300:
        return _is_denied(reply)
    try:
        document = jsontext.parse(reply.body, dict[str, Any])
    except msgspec.DecodeError as error:
        return UnreadDocument(0, f"GET {path}: unexpected answer: {error}")
    if "/secrets/" in path:
        kept = {name: value for name, value in (document.get("data") or {}).items() if name == "tls.crt"}
        return {**document, "data": kept}
    return document


def _is_denied(reply: Reply | UnreadDocument) -> UnreadDocument:
    if isinstance(reply, UnreadDocument):
        return reply
    message = cut(one_line(reply.message), _LONGEST)
    return UnreadDocument(reply.code, message or f"the server answered {reply.code}")


def _allowed(answer: Answer) -> bool | UnreadDocument:
    return bool((answer.get("status") or {}).get("allowed")) if isinstance(answer, dict) else answer


def _date(headers: Mapping[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(headers.get("Date", ""))
    except ValueError:
        return None


def _metrics_port(pod: Document) -> int:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == "metrics"), 0)


def _ages(reply: Reply | UnreadDocument | None) -> dict[str, float]:
    """Return the ages of caches from metrics; empty if there are no metrics."""
    if not isinstance(reply, Reply) or reply.code != 200:
        return {}
    try:
        return {resource.decode(): float(age) for resource, age in _AGE.findall(reply.body)}
    except ValueError:
        return {}


def _named(reply: Reply | UnreadDocument | None) -> list[NamedUndecodable]:
    """Return the objects that a process cannot decode; none if an older process does not report them."""
    if not isinstance(reply, Reply) or reply.code != 200:
        return []
    try:
        return jsontext.parse(reply.body, list[NamedUndecodable])
    except msgspec.DecodeError:
        return []


def _settings(facts: ClusterFacts) -> dict[str, Any]:
    """Return the scheduler's file in its ConfigMap; empty if there is none, or it cannot be read."""
    data = (facts.document(facts.installation.settings) or {}).get("data") or {}
    try:
        documents = [
            document for text in data.values() for document in split(text.encode(), "podium-scheduler")
        ]
        return documents[0].value() if documents else {}
    except PodiumError:
        return {}
