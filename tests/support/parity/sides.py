"""The two compared servers, and every way to write to one, as values and plain requests.

The same document goes to native kinds of a server with the Workload API and to Podium's kinds of a server
without. Only its API group differs. The answers are normalized: the group's name is changed back, and values
that only a server can choose are left out. All that then differs is a difference.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from tests.support.admission.recording import canonical
from tests.support.servers import Server
from tools.devcluster.controlplane.client import Client

from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP

Document = dict[str, Any]

_MERGE = "application/merge-patch+json"
_JSON = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"


# The key in etcd, and the uid there.
_STORAGE = re.compile(r"(?<=StorageError: ).*", re.DOTALL)


class Way(StrEnum):
    """The ways to write an object; each is the request of a kubectl command for custom resources."""

    CREATE = "create"  # kubectl create, and kubectl apply of a new object: POST
    REPLACE = "replace"  # kubectl replace: PUT of the manifest with the stored resourceVersion
    REPLACE_BLINDLY = "replace-blindly"  # PUT without a resourceVersion
    MERGE = "merge"  # kubectl patch --type=merge, and kubectl apply of an existing object
    JSON = "json"  # kubectl patch --type=json
    APPLY = "apply"  # kubectl apply --server-side
    APPLY_BESIDE = "apply-beside"  # the same, of an object that another manager created
    APPLY_OVER = "apply-over"  # and with --force-conflicts


CREATES = (Way.CREATE, Way.APPLY)
UPDATES = (Way.REPLACE, Way.REPLACE_BLINDLY, Way.MERGE, Way.JSON, Way.APPLY, Way.APPLY_BESIDE, Way.APPLY_OVER)
APPLIES = UPDATES[-3:]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A server's answer to one request, normalized."""

    code: int
    reason: str = ""
    message: str = ""  # of a 422 the text before its causes
    causes: tuple[tuple[str, str], ...] = ()  # field and message of each, sorted
    object: Document | None = None  # as stored, or as it would be in a dry run; None when refused

    @property
    def allowed(self) -> bool:
        return self.code < 300


class Side(NamedTuple):
    """A server, and the group and version of the kinds written there.

    Not thread-safe.
    """

    server: Server
    client: Client
    group: str
    version: str

    @property
    def podium(self) -> bool:
        return self.group == PODIUM_GROUP

    def path(self, document: Document) -> str:
        """Return the path of the objects of its kind."""
        api_version = self.own(document)["apiVersion"]
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        return f"{root}/namespaces/{document['metadata']['namespace']}/{document['kind'].lower()}s"

    def place(self, document: Document) -> str:
        """Return the path of one object with any name."""
        return f"{self.path(document)}/{quote(str(document['metadata'].get('name')), safe='')}"

    def own(self, document: Document) -> Document:
        """Return a document in this side's API group; pods are the same everywhere."""
        pod = document["kind"] == "Pod"
        return {**document, "apiVersion": "v1" if pod else f"{self.group}/{self.version}"}

    def write(
        self,
        way: Way,
        document: Document,
        stored: Document | None = None,
        *,
        dry: bool = False,
        query: str = "",
        subresource: str = "",
    ) -> Answer:
        """Write `document`, in place of `stored` (this server's own) where that is given."""
        path = self.path(document)
        if way is not Way.CREATE:
            path = self.place(document) + (f"/{subresource}" if subresource else "")
        method, body, content_type = self._request(way, self.own(document), stored)
        force = "&force=true" if way is Way.APPLY_OVER else ""
        manager = "another" if way in (Way.APPLY_BESIDE, Way.APPLY_OVER) else "parity"
        options = f"?fieldManager={manager}{force}{'&dryRun=All' if dry else ''}{query}"
        return answer_of(*self.client.request(method, path + options, body, content_type))

    def _request(self, way: Way, wanted: Document, stored: Document | None) -> tuple[str, Any, str]:
        if way is Way.CREATE:
            return "POST", wanted, "application/json"
        if way in APPLIES:
            return "PATCH", wanted, _APPLY
        if way is Way.REPLACE_BLINDLY:
            return "PUT", wanted, "application/json"
        assert stored is not None, f"{way} is an update"
        if way is Way.REPLACE:
            version = {"resourceVersion": stored["metadata"]["resourceVersion"]}
            return "PUT", {**wanted, "metadata": wanted["metadata"] | version}, "application/json"
        if way is Way.MERGE:
            return "PATCH", merge_patch(stored, wanted), _MERGE
        return "PATCH", json_patch(stored, wanted), _JSON

    def read(self, document: Document) -> Document | None:
        """Return the stored object, unchanged, None without one."""
        code, answer = self.client.request("GET", self.place(document))
        assert code in (200, 404), answer
        return answer if code == 200 else None


class Sides(NamedTuple):
    """A server with the Workload API, and one without that has Podium's kinds and webhooks."""

    native: Side
    podium: Side

    @property
    def minor(self) -> str:
        return self.native.server.release.minor

    @contextlib.contextmanager
    def anew(self) -> "Iterator[Sides]":
        """Yield the same servers on new connections, for another thread."""
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(contextlib.closing(side.server.access.client())) for side in self]
            yield Sides(*(side._replace(client=client) for side, client in zip(self, clients, strict=True)))

    def __str__(self) -> str:
        return f"Kubernetes {self.native.server.release.version}, {self.native.version}"


def answer_of(code: int, answer: Any) -> Answer:
    """Normalize an answer of a server."""
    if isinstance(answer, str):
        return Answer(code=code, message=answer)
    answer = in_common(answer)
    if code < 300:
        return Answer(code=code, object=canonical(answer))
    given = (answer.get("details") or {}).get("causes") or []
    causes = [(cause.get("field", ""), cause.get("message", "")) for cause in given]
    return Answer(
        code=code,
        reason=answer.get("reason", ""),
        message=_STORAGE.sub("", _head(answer.get("message", ""), causes)),
        causes=tuple(sorted(causes)),
    )


def _head(message: str, causes: Sequence[tuple[str, str]]) -> str:
    """Return a message without its causes, which come in any order, if it is made of them."""
    head, separator, listed = message.partition(" is invalid: ")
    rendered = {f"{field}: {text}" for field, text in causes}
    brackets = 2 if len(rendered) > 1 else 0
    whole = len(listed) == sum(map(len, rendered)) + 2 * (len(rendered) - 1) + brackets
    return head + separator if causes and whole and all(one in listed for one in rendered) else message


def in_common(answer: Any) -> Any:
    """Return a server's answer with the native group's name for Podium's."""
    return msgspec.json.decode(
        msgspec.json.encode(answer).replace(PODIUM_GROUP.encode(), NATIVE_GROUP.encode())
    )


# The parts of an object's metadata that a client may change.
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def merge_patch(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document:
    """Return the JSON merge patch (RFC 7386) that makes spec, status and metadata as wanted."""
    return {
        part: _merge(before, after)
        for part, before, after in _parts(stored, wanted)
        if before != after or part == "spec"
    }


def json_patch(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Document]:
    """Return the JSON patch (RFC 6902) that replaces each changed part as a whole."""
    patch: list[Document] = []
    for part, before, after in _parts(stored, wanted):
        if part != "metadata":
            if before != after:
                patch.append({"op": "add", "path": f"/{part}", "value": after})
            continue
        patch += [{"op": "remove", "path": f"/metadata/{key}"} for key in before if key not in after]
        patch += [
            {"op": "add", "path": f"/metadata/{key}", "value": value}
            for key, value in after.items()
            if before.get(key) != value
        ]
    return patch


def _parts(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    before, after = (
        {key: one["metadata"][key] for key in _METADATA if key in one["metadata"]} for one in (stored, wanted)
    )
    yield "metadata", before, after
    for part in ("spec", "status"):
        if part in wanted:
            yield part, stored.get(part), wanted[part]


def _merge(stored: Any, wanted: Any) -> Any:
    if not isinstance(stored, dict) or not isinstance(wanted, dict):
        return wanted
    patch: Document = {key: None for key in stored if key not in wanted}
    for key, value in wanted.items():
        if key not in stored or stored[key] != value:
            patch[key] = _merge(stored.get(key), value)
    return patch
