"""Repeats a server's requests with `review` and the upstream rules, and lists where the two answers differ.

The rules see the server's stored objects, in its order, so one difference does not lead to the next. The
comparison covers the verdict, the code, the reason, the message, and the stored object. Of a Pod only the
fields of Podium's rules count, since Podium does not set its other defaults.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from tests.support.admission.explained import explanation
from tests.support.admission.generator import Kind
from tests.support.admission.recording import CURRENT, UID, Exchange, Header, Op, Recorded, canonical
from tests.support.admission.scene import Document

from podium.api.reads import FOLLOWED
from podium.cluster.state import ClusterState
from podium.rules.admission import Verdict, review
from podium.rules.context import Operation, Profile, Request

_POD_FIELDS = ("priorityClassName", "priority", "preemptionPolicy", "schedulingGroup")

Identity = tuple[str, str]  # kind and name: a scenario lives in one namespace


class Difference(NamedTuple):
    """A difference between the server and the rules."""

    what: str
    server: Any
    ours: Any
    explained: str | None  # the heading in docs/differences.md


class Compared(NamedTuple):
    """An exchange, the verdict of the rules on it, and the differences."""

    exchange: Exchange
    verdict: Verdict
    differences: list[Difference]

    @property
    def unexplained(self) -> list[Difference]:
        """Return the differences that docs/differences.md does not explain."""
        return [difference for difference in self.differences if difference.explained is None]

    def __str__(self) -> str:
        """Return the request and both answers, for the message of a failed test."""
        lines = [f"{self.exchange.op} {msgspec.json.encode(self.exchange.object).decode()}"]
        for difference in self.unexplained:
            lines += [
                f"  {difference.what}",
                f"    server: {difference.server!r}",
                f"    podium: {difference.ours!r}",
            ]
        return "\n".join(lines)


def compared(header: Header, recorded: Recorded) -> Iterator[Compared]:
    """Replay one scenario; deletes change the stored objects and are not compared."""
    profile = Profile(
        kubernetes=header.minor,
        rules="upstream",
        workload_api=header.workload_api,
        gates=frozenset(header.gates),
    )
    documents: dict[Identity, Document] = {(Kind.CLASS, _name(item)): item for item in header.classes}
    for exchange in recorded.exchanges:
        if exchange.op is not Op.DELETE:
            yield _compare(exchange, documents, profile)
        identity = (exchange.object["kind"], _name(exchange.stored or exchange.object))
        if exchange.op is Op.DELETE or exchange.gone:
            documents.pop(identity)
        if exchange.stored is not None and not exchange.gone:
            documents[identity] = exchange.stored


def _compare(exchange: Exchange, documents: Mapping[Identity, Document], profile: Profile) -> Compared:
    creating = exchange.op is Op.CREATE
    stored = documents.get((exchange.object["kind"], _name(exchange.object)))
    request = Request(
        operation=Operation.CREATE if creating else Operation.UPDATE,
        subresource="status" if exchange.op is Op.STATUS else "",
        object=exchange.object,
        old=None if creating or stored is None else _current(stored),
    )
    verdict = review(request, _state(documents, profile), profile)
    differences = [
        Difference(what, server, ours, explanation(exchange, what, server, ours))
        for what, server, ours in (
            ("allowed", exchange.code < 300, verdict.allowed),
            ("code", exchange.code, verdict.code),
            ("reason", exchange.reason, verdict.reason),
            ("message", exchange.message, verdict.message),
            ("stored", _comparable(exchange.stored), _comparable(verdict.admitted)),
        )
        if server != ours
    ]
    return Compared(exchange, verdict, differences)


def _state(documents: Mapping[Identity, Document], profile: Profile) -> ClusterState:
    state = ClusterState(native_served=profile.workload_api)
    for document in documents.values():
        read = FOLLOWED[document["apiVersion"], document["kind"]]
        state.apply(read.neutral(msgspec.convert(document, read.type)))
    return state


def _current(document: Document) -> Document:
    """Return a stored object with the version that requests were sent with."""
    return {**document, "metadata": {**document["metadata"], "resourceVersion": CURRENT, "uid": UID}}


def _comparable(document: Document | None) -> Document | None:
    """Return the parts of a stored object that must agree."""
    if document is None:
        return None
    if document["kind"] != Kind.POD:
        return canonical(document)
    spec = {field: document["spec"][field] for field in _POD_FIELDS if field in document["spec"]}
    return {**canonical(document), "spec": spec, "status": None}


def _name(document: Document) -> str:
    name: str = document["metadata"].get("name") or ""
    return name
