"""The objects of a live cluster, page by page, as the same documents that a file gives.

A list is paged so that no server has to hold a large cluster in one answer. The pages of one list belong to
one moment, which the server forgets after some minutes: it then answers 410 and the whole reading has to
start again, since half of one moment and half of another is neither.
"""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from podium.api.reads import READS, Reads
from podium.api.schedulable import Schedulable
from podium.documents.load import ClusterInfo, Scope
from podium.documents.schedulerfile import PATH, SchedulerFile, of_config_map
from podium.documents.split import Document, split
from podium.errors import PodiumError
from podium.findings import group_of
from podium.kube.connection import Connection, RefusedError
from podium.kube.discovery import NOT_SERVED, Discovery, Served, discover
from podium.kube.paging import Pager
from podium.kube.sanitize import sanitize

# Calls between here and whoever decodes the documents of a page: they count against the same limit.
_FRAMES = 100
_SKIP = msgspec.json.Decoder(msgspec.Raw)


class ExpiredError(PodiumError):
    """The server forgot the moment that the pages so far belong to: read all of it again."""


class Progress(NamedTuple):
    """How far the list of one kind is; `remaining` is what the server thinks is left, or 0."""

    served: Served
    read: int
    remaining: int


class Page(NamedTuple):
    """Some objects of one kind; the last page may be empty. `unread` says why there are none to have."""

    served: Served
    documents: list[Document]
    unread: str = ""


class ListMeta(msgspec.Struct):
    """metadata of a List: the moment it is of, and the token of the page that follows."""

    resourceVersion: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)
    remainingItemCount: int | None = None


class _List(msgspec.Struct):
    """The head of a typed List; a page without items is not a list."""

    kind: str
    items: msgspec.Raw
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Collector(Protocol):
    """Who takes the pages of one reading."""

    def add_page(self, page: Page) -> None:
        """Take a page; the pages of one kind come one after the other."""


class Watcher(Protocol):
    """Who is told how the reading goes."""

    def progress(self, progress: Progress) -> None:
        """Hear of one more page."""

    def say(self, line: str) -> None:
        """Hear of something a person should know."""


C = TypeVar("C", bound=Collector)


async def check_namespace(connection: Connection, scope: Scope) -> None:
    """Raise PodiumError where the scope is a namespace that is not there, of which a list would be empty.

    Who may not know is not told.
    """
    if not scope.namespace:
        return
    try:
        await connection.get(f"/api/v1/namespaces/{scope.namespace}")
    except RefusedError as error:
        # Whatever else is wrong is told of what is read.
        if error.code == 404 and error.message.startswith("namespaces "):
            raise PodiumError(
                f"{connection.server}: there is no namespace {scope.namespace}; choose one with -n"
            ) from None


async def read_cluster(
    connection: Connection,
    scope: Scope,
    watcher: Watcher,
    begin: Callable[[Discovery], C],
    reads: Reads = READS,
) -> tuple[C, ClusterInfo]:
    """Read every kind in the scope into a collector that `begin` makes; once more if the server forgets it.

    Which kinds there are, and how each is read, is `reads`. Raises PodiumError; no collector is given then.
    """
    discovery = await discover(connection, reads)
    try:
        return await _read(connection, discovery, scope, watcher, begin)
    except ExpiredError as error:
        watcher.say(f"{error}; reading everything again")
    try:
        return await _read(connection, discovery, scope, watcher, begin)
    except ExpiredError as error:
        raise PodiumError(
            f"{error}, twice; read one namespace (-n), or when the server is less busy"
        ) from None


async def _read(
    connection: Connection,
    discovery: Discovery,
    scope: Scope,
    watcher: Watcher,
    begin: Callable[[Discovery], C],
) -> tuple[C, ClusterInfo]:
    collector = begin(discovery)
    unread = dict(discovery.unread)
    async for page in list_all(connection, discovery, scope, watcher):
        if page.unread:
            # A kind may be of two groups, native and Podium's; each that is kept from us is named.
            others = unread.get(page.served.read.kind)
            unread[page.served.read.kind] = f"{others}; {page.unread}" if others else page.unread
        else:
            collector.add_page(page)
    scheduling = any(served.read.type is Schedulable for served in discovery.served)
    info = ClusterInfo(
        server=discovery.server,
        namespace=scope.namespace,
        selector=scope.selector,
        unread=unread,
        scheduling=scheduling,
        scheduler=await _scheduler_file(connection) if scheduling else None,
    )
    return collector, info


async def _scheduler_file(connection: Connection) -> SchedulerFile | None:
    """Read the file of Podium's scheduler; None if there is none."""
    try:
        body = await connection.get(PATH)
        return of_config_map(msgspec.json.decode(body))
    except RefusedError as error:
        return None if error.code == 404 else SchedulerFile(problem=error.message)
    except msgspec.DecodeError as error:
        return SchedulerFile(problem=str(error))


async def list_all(
    connection: Connection, discovery: Discovery, scope: Scope, watcher: Watcher
) -> AsyncIterator[Page]:
    """Give every object of every served kind in the scope; a kind kept from us is a page that says why.

    The selector narrows namespaced kinds only, as the namespace does. Raises ExpiredError or another
    PodiumError; pages given before an error are not to be used.
    """
    for served in discovery.served:
        try:
            async for page in _pages(connection, served, scope, watcher):
                yield page
        except RefusedError as error:
            if error.code == 410:
                raise ExpiredError(f"{connection.server}: {served.resource}: {error.message}") from None
            if error.code not in (403, 404):
                raise
            why = NOT_SERVED if error.code == 404 else missing_permission(served, scope.namespace)
            yield Page(served, [], why)


async def _pages(
    connection: Connection, served: Served, scope: Scope, watcher: Watcher
) -> AsyncIterator[Page]:
    path = served.path(scope.namespace)
    query = {"labelSelector": scope.selector} if scope.selector and served.namespaced else {}
    pager = Pager(connection, path, query)
    token, read = "", 0
    while True:
        body = await pager.page(token)
        if _is_deep(body):
            body = sanitize(body)
        head = _head(connection, path, served, body)
        documents = list(split(body, f"{connection.server}{path}"))
        if documents and documents[0].kind == head.kind:
            documents = []  # An empty List stands for itself.
        read += len(documents)
        watcher.progress(Progress(served, read, head.metadata.remainingItemCount or 0))
        yield Page(served, documents)
        if not head.metadata.continue_:
            return
        token = head.metadata.continue_


def _is_deep(body: bytes, frames: int = _FRAMES) -> bool:
    """Say whether a page is nested deeper than msgspec decodes it so many calls further down."""
    if frames:
        return _is_deep(body, frames - 1)
    try:
        _SKIP.decode(body)
    except RecursionError:
        return True
    except msgspec.DecodeError:
        # What it is instead of a List, its reader says best.
        return False
    return False


def _head(connection: Connection, path: str, served: Served, body: bytes) -> _List:
    try:
        head = msgspec.json.decode(body, type=_List)
    except msgspec.DecodeError as error:
        raise PodiumError(f"{connection.server}: GET {path}: the answer is not a List ({error})") from None
    if head.kind != f"{served.kind}List":
        raise PodiumError(f"{connection.server}: GET {path}: the answer is a {head.kind}")
    return head


def missing_permission(served: Served, namespace: str, verbs: str = "list") -> str:
    """Name the permission that a 403 means; an empty namespace is all of them."""
    where = f"in namespace {namespace}" if namespace and served.namespaced else "cluster-wide"
    group = group_of(served.api_version)
    return f'missing permission: {verbs} {served.plural} (API group "{group}") {where}'
