"""Puts what a server was asked to `review` with the upstream rules, and says where the two answers differ.

The rules see what the server stored, in the order it stored it, so one difference does not lead to the next.
What is compared: whether it was allowed, the code, the reason, the message, and the object as stored; of a
Pod the fields that Podium's rules know, for the rest of its defaults are none of its business.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from tests.differential.explained import explanation
from tests.differential.generator import Kind
from tests.differential.recording import CURRENT, UID, Exchange, Header, Op, Recorded, canonical
from tests.differential.scene import Document

from podium.api.reads import READS
from podium.rules.admission import Verdict, review
from podium.rules.case import Operation, Profile, Request
from podium.state import State

_POD_FIELDS = ("priorityClassName", "priority", "preemptionPolicy", "schedulingGroup")

Identity = tuple[str, str]  # kind and name: a scenario lives in one namespace


class Difference(NamedTuple):
    """A difference between the server and the rules."""

    what: str
    server: Any
    ours: Any
    explained: str | None  # by what in docs/differences.md


class Compared(NamedTuple):
    """An exchange, the verdict of the rules on it, and the differences."""

    exchange: Exchange
    verdict: Verdict
    differences: list[Difference]

    @property
    def unexplained(self) -> list[Difference]:
        """The differences that nothing in docs/differences.md accounts for."""
        return [difference for difference in self.differences if difference.explained is None]

    def __str__(self) -> str:
        """Everything a reader needs to see who is right."""
        lines = [f"{self.exchange.op} {msgspec.json.encode(self.exchange.object).decode()}"]
        for difference in self.unexplained:
            lines += [
                f"  {difference.what}",
                f"    server: {difference.server!r}",
                f"    podium: {difference.ours!r}",
            ]
        return "\n".join(lines)


def compared(header: Header, recorded: Recorded) -> Iterator[Compared]:
    """Replay one scenario; deletes change what is there and are not compared."""
    profile = Profile(kubernetes=header.minor, rules="upstream", workload_api=header.workload_api)
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


def _state(documents: Mapping[Identity, Document], profile: Profile) -> State:
    state = State(native_served=profile.workload_api)
    for document in documents.values():
        read = READS[document["apiVersion"], document["kind"]]
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
