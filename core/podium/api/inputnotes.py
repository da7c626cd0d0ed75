"""The files and objects that a reader left out or replaced, as values for reports and messages.

A folder of a repository holds more than manifests. A report on it must say which files it does not cover.
"""

from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from podium.text import some


class SkipReason(StrEnum):
    """The reason why a file of a folder, or one of its documents, is not read."""

    NO_OBJECT = "no Kubernetes object"
    TEMPLATE = "template to be rendered first (helm template)"
    KUSTOMIZE = "kustomize source to be built first (kubectl kustomize)"
    UNREADABLE = "cannot be read"


class SkippedInput(msgspec.Struct, frozen=True):
    """A file of a folder, or one of its documents (`a.yaml, document 2`), that is not read.

    `problem` is the whole message of the reader.
    """

    place: str
    reason: SkipReason
    problem: str

    def __str__(self) -> str:
        """Return the place and the reason in words."""
        return self.problem if self.reason is SkipReason.UNREADABLE else f"{self.place}: {self.reason}"


class DuplicateInput(msgspec.Struct, frozen=True):
    """An object that is in the input twice: its name, the replaced place, and the place that counts."""

    object: str
    replaced: str
    counts: str


class InputNotes:
    """Collects what a reading skipped and replaced."""

    def __init__(self) -> None:
        self.skipped: list[SkippedInput] = []
        self.duplicates: list[DuplicateInput] = []

    def lines(self) -> Iterator[str]:
        """Yield at most two lines for a terminal: the skipped files, and the duplicates."""
        if self.skipped:
            places = defaultdict(list)
            for document in self.skipped:
                shown = document.problem if document.reason is SkipReason.UNREADABLE else document.place
                places[document.reason].append(shown)
            parts = [f"{len(files):,} {reason}: {some(files)}" for reason, files in sorted(places.items())]
            total = "1 document" if len(self.skipped) == 1 else f"{len(self.skipped):,} documents"
            yield f"skipped {total} of folders ({'; '.join(parts)})"
        if self.duplicates:
            named = [
                f"{duplicate.object} ({duplicate.replaced}; {duplicate.counts})"
                for duplicate in self.duplicates
            ]
            yield f"in the input twice, the last one counts: {some(named)}"
