"""List the objects of a live cluster page by page, as the same documents that a file contains.

Lists are paged so that no server has to hold a large cluster in one answer. The pages of one list have one
resourceVersion, which the server compacts after some minutes and then answers 410. Reading must then start
again, because a mixture of two versions is inconsistent.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from podium import jsontext
from podium.api.claims import ClaimingPod
from podium.api.findings import group_of
from podium.api.reads import READS, Reads
from podium.api.schedulable import Schedulable
from podium.documents.clusterinfo import PATH, ClusterInfo, SchedulerFile, of_config_map
from podium.documents.document import Document
from podium.documents.load import NOT_SERVED
from podium.documents.scope import Scope
from podium.documents.split import split
from podium.errors import PodiumError
from podium.kube.connection import Connection, RefusedError
from podium.kube.discovery import Discovery, Served, discover
from podium.kube.reading import Pager


class ExpiredPageError(PodiumError):
    """The server compacted the resourceVersion of the pages read so far: read everything again."""


class Progress(NamedTuple):
    """The progress of one list; `remaining` is the server's estimate of what is left, or 0."""

    served: Served
    read: int
    remaining: int


class Page(NamedTuple):
    """Some objects of one kind; the last page may be empty. `unread` says why the kind cannot be read."""

    served: Served
    documents: list[Document]
    unread: str = ""


class ListMeta(msgspec.Struct):
    """The metadata of a List: its resourceVersion and the continue token of the next page."""

    resourceVersion: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)
    remainingItemCount: int | None = None


class _KindList(msgspec.Struct):
    """The head of a typed List. `items` is required: an answer without it is not a list."""

    kind: str
    items: msgspec.Raw
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Collector(Protocol):
    """Receives the pages of one reading."""

    def add_page(self, page: Page) -> None:
        """Add a page; the pages of one kind arrive consecutively."""


class ReadProgress(Protocol):
    """Receives the progress of a reading."""

    def progress(self, progress: Progress) -> None:
        """Report one more page."""

    def message(self, line: str) -> None:
        """Report a line that the user should see."""


C = TypeVar("C", bound=Collector)


async def check_namespace(connection: Connection, scope: Scope) -> None:
    """Raise PodiumError if the namespace of the scope does not exist, because its lists would be empty.

    If access to the namespace is denied, nothing is raised.
    """
    if not scope.namespace:
        return
    try:
        await connection.get(f"/api/v1/namespaces/{scope.namespace}")
    except RefusedError as error:
        # Other errors are reported when the objects are read.
        if error.code == 404 and error.message.startswith("namespaces "):
            raise PodiumError(
                f"{connection.server}: namespace {scope.namespace} not found. Choose another with -n"
            ) from None


async def read_cluster(
    connection: Connection,
    scope: Scope,
    watcher: ReadProgress,
    begin: Callable[[Discovery], C],
    reads: Reads = READS,
) -> tuple[C, ClusterInfo]:
    """Read every kind in the scope into a collector that `begin` creates; retry once after a 410.

    `reads` holds the kinds and how each is read. Raises PodiumError; no collector is returned then.
    """
    discovery = await discover(connection, reads)
    try:
        return await _read(connection, discovery, scope, watcher, begin)
    except ExpiredPageError as error:
        watcher.message(f"{error}; reading everything again")
    try:
        return await _read(connection, discovery, scope, watcher, begin)
    except ExpiredPageError as error:
        raise PodiumError(
            f"{error}, twice. Read one namespace (-n), or retry when the server is less busy"
        ) from None


async def _read(
    connection: Connection,
    discovery: Discovery,
    scope: Scope,
    watcher: ReadProgress,
    begin: Callable[[Discovery], C],
) -> tuple[C, ClusterInfo]:
    collector = begin(discovery)
    unread = dict(discovery.unread)
    async for page in list_all(connection, discovery, scope, watcher):
        if page.unread:
            # Two groups may have the same kind, native and Podium's. The text names each group that cannot be
            # read.
            reasons = unread.get(page.served.read.kind)
            unread[page.served.read.kind] = f"{reasons}; {page.unread}" if reasons else page.unread
        else:
            collector.add_page(page)
    scheduling = any(served.read.type is Schedulable for served in discovery.served)
    claiming = any(issubclass(served.read.type, ClaimingPod) for served in discovery.served)
    info = ClusterInfo(
        server=discovery.server,
        namespace=scope.namespace,
        selector=scope.selector,
        unread=unread,
        scheduling=scheduling,
        storage=claiming,
        devices=claiming,
        scheduler=await _scheduler_file(connection) if scheduling else None,
    )
    return collector, info


async def _scheduler_file(connection: Connection) -> SchedulerFile | None:
    """Return the configuration file of Podium's scheduler, or None if it does not exist."""
    try:
        body = await connection.get(PATH)
        return of_config_map(jsontext.parse(body, dict[str, Any]))
    except RefusedError as error:
        return None if error.code == 404 else SchedulerFile(problem=error.message)
    except msgspec.DecodeError as error:
        return SchedulerFile(problem=str(error))


async def list_all(
    connection: Connection, discovery: Discovery, scope: Scope, watcher: ReadProgress
) -> AsyncIterator[Page]:
    """Yield every object of every served kind in the scope; a kind without access is a page with the reason.

    The selector and the namespace apply to namespaced kinds only. Raises ExpiredError or another PodiumError;
    after an error the pages yielded before must not be used.
    """
    for served in discovery.served:
        try:
            async for page in _pages(connection, served, scope, watcher):
                yield page
        except RefusedError as error:
            if error.code == 410:
                raise ExpiredPageError(f"{connection.server}: {served.resource}: {error.message}") from None
            if error.code not in (403, 404):
                raise
            why = NOT_SERVED if error.code == 404 else missing_permission(served, scope.namespace)
            yield Page(served, [], why)


async def _pages(
    connection: Connection, served: Served, scope: Scope, watcher: ReadProgress
) -> AsyncIterator[Page]:
    path = served.path(scope.namespace)
    query = {"labelSelector": scope.selector} if scope.selector and served.namespaced else {}
    pager = Pager(connection, path, query)
    token, read = "", 0
    while True:
        body = await pager.page(token)
        head = _head(connection, path, served, body)
        documents = list(split(body, f"{connection.server}{path}", live=True))
        if documents and documents[0].kind == head.kind:
            documents = []  # `split` returns an empty List as itself.
        read += len(documents)
        watcher.progress(Progress(served, read, head.metadata.remainingItemCount or 0))
        yield Page(served, documents)
        if not head.metadata.continue_:
            return
        token = head.metadata.continue_


def _head(connection: Connection, path: str, served: Served, body: bytes) -> _KindList:
    try:
        head: _KindList = jsontext.parse(body, _KindList)
    except msgspec.DecodeError as error:
        raise PodiumError(f"{connection.server}: GET {path}: the answer is not a List ({error})") from None
    if head.kind != f"{served.kind}List":
        raise PodiumError(f"{connection.server}: GET {path}: the answer is a {head.kind}")
    return head


def missing_permission(served: Served, namespace: str, verbs: str = "list") -> str:
    """Return the missing permission behind a 403; an empty namespace means all namespaces."""
    where = f"in namespace {namespace}" if namespace and served.namespaced else "cluster-wide"
    group = group_of(served.api_version)
    return f'missing permission: {verbs} {served.plural} (API group "{group}") {where}'
