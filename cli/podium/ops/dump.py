"""Write a cluster to one file: what Podium reads of it and nothing else, for an audit elsewhere.

The file is a `v1` List whose items are typed Lists. Empty Lists are included, because an empty List proves
that no object of its kind exists. The first item (ClusterInfo) has the server's version, the part of the
cluster that was read, and the unread kinds with the reason. An audit of the file has the same findings as an
audit of the cluster. A plan has the same result too: pods and nodes are stored as a scheduler sees them.
"""

import gzip
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from podium.answers.expansion.additions import selected_keys
from podium.api.events import Event
from podium.api.reads import Kind
from podium.documents import files
from podium.documents.clusterinfo import ClusterInfo
from podium.errors import PodiumError
from podium.kube.discovery import Discovery, Served
from podium.kube.listing import Page
from podium.ops.selectorwords import kept_words
from podium.ops.share import Filter, Rename, known_kinds
from podium.ops.sharedfields import NAMING_KEYS

# Maximum number of events in a dump: an hour in which a large cluster was preempted twice.
MOST_EVENTS = 20_000


class DumpRecorder:
    """Collects the reads of every page; which labels may be shared is known only after the last page."""

    def __init__(self, discovery: Discovery) -> None:  # noqa: ARG002 - every collector has this signature
        self.objects: dict[Served, list[Any]] = {}

    def add_page(self, page: Page) -> None:
        """Decode the objects of a page; events are kept only if they report evictions. Raises ReadError."""
        read = (document.read(page.served.read.type) for document in page.documents)
        kept = (decoded for decoded in read if not isinstance(decoded, Event) or decoded.of_eviction)
        self.objects.setdefault(page.served, []).extend(kept)

    def limit(self, info: ClusterInfo, most: int = MOST_EVENTS) -> ClusterInfo:
        """Keep only the newest events, and return the info with the history that the dump lacks."""
        unread = dict(info.unread)
        for served, objects in self.objects.items():
            if served.read.kind is Kind.EVENT and len(objects) > most:
                unread[Kind.EVENT] = f"only the newest {most:,} of {len(objects):,} eviction events"
                objects.sort(key=lambda event: event.time)
                del objects[:-most]
            if served.read.kind is Kind.PREEMPTION_RECORD and info.namespace:
                unread[Kind.PREEMPTION_RECORD] = f"only those in namespace {info.namespace} were read"
        return msgspec.structs.replace(info, unread=unread)

    def counts(self) -> dict[str, int]:
        """Return the number of objects per resource."""
        return {served.resource: len(objects) for served, objects in self.objects.items()}


def write(path: Path, dump: Iterable[bytes]) -> None:
    """Write a dump, readable by its owner only; the file is complete or not written.

    The dump is compressed with gzip if the file name says so. Raises PodiumError.
    """
    try:
        files.replace(path, lambda file: _write(file, path.name, dump), mode=files.PRIVATE)
    except BrokenPipeError:
        raise  # The reader of a pipe has exited.
    except OSError as error:
        raise PodiumError(f"{path}: write failed: {error.strerror}") from None


def _write(file: IO[bytes], name: str, dump: Iterable[bytes]) -> None:
    if not name.endswith(".gz"):
        file.writelines(dump)
        return
    # The gzip header has no name and no time, because they would tell where and when the dump was taken.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.writelines(dump)


def lines(recorder: DumpRecorder, info: ClusterInfo, rename: Rename | None) -> Iterator[bytes]:
    """Yield the dump as JSON, one object per line."""
    everything = list(itertools.chain.from_iterable(recorder.objects.values()))
    kept = NAMING_KEYS | selected_keys(everything)
    past = any(served.read.kind is Kind.EVENT for served in recorder.objects)
    kinds = known_kinds(everything) if past else frozenset()
    words = kept_words(everything) if rename is not None else frozenset()
    shared = Filter(kept, rename, past=past, kinds=kinds, words=words)
    info = msgspec.structs.replace(info, labels=sorted(kept))
    yield b'{"apiVersion":"v1","kind":"List","items":[\n'
    yield msgspec.json.encode(_shared_info(info, shared, pseudonyms=rename is not None))
    for served, objects in recorder.objects.items():
        head = msgspec.json.encode({"apiVersion": served.api_version, "kind": f"{served.kind}List"})
        yield b",\n" + head[:-1] + b',"items":['
        separator = b"\n"
        for value in objects:
            header = {"apiVersion": served.api_version, "kind": served.kind}
            yield separator + msgspec.json.encode({**header, **shared.share(value)})
            separator = b",\n"
        yield b"\n]}"
    yield b"\n]}\n"


def _shared_info(info: ClusterInfo, shared: Filter, *, pseudonyms: bool) -> ClusterInfo:
    if not pseudonyms:
        return info
    renamed = shared.name(info.namespace)
    return msgspec.structs.replace(
        info,
        namespace=renamed,
        selector="(not shared)" if info.selector else "",
        labels=[],
        scheduler=info.scheduler.shared(shared.name) if info.scheduler is not None else None,
        unread={
            kind: why.replace(f"in namespace {info.namespace}", f"in namespace {renamed}")
            for kind, why in info.unread.items()
        },
    )
