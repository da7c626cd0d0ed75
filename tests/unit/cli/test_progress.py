"""Progress on a terminal: what a command does, what is done and what is left, and nothing elsewhere."""

import gzip
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.calling import call
from tests.support.ui.running import ROOT, TRAINING

from podium.cli import inputs, progress
from podium.cli.main import COMMANDS
from podium.documents.sources import InputFiles, read_documents


class Terminal(io.StringIO):
    """A terminal that signals the first text that is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        number = super().write(text)
        self.written.set()
        return number


def _terminal(monkeypatch: pytest.MonkeyPatch, silent_seconds: float = 0.0) -> Terminal:
    """Make standard error a terminal that shows waits of so many seconds."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_SILENT_SECONDS", silent_seconds)
    return terminal


def test_a_long_wait_says_what_is_done_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress.working("planning", 1_204) as work:
        assert list(work.track("ab")) == ["a", "b"]
        terminal.written.wait()
    shown = terminal.getvalue().split("\r\x1b[K")
    assert shown[1] in {f"planning: {done} of 1,204, 0 s" for done in (0, 1, 2)}
    assert (str(work), shown[-1]) == ("planning: 2 of 1,204", "")


@pytest.mark.parametrize(
    ("done", "total", "text"), [(0, 0, "reading"), (1_000, 0, "reading: 1,000"), (0, 9, "reading: 0 of 9")]
)
def test_an_unknown_number_is_left_out(done: int, total: int, text: str) -> None:
    work = progress.Work("reading", total)
    work.done = done
    assert str(work) == text


def test_the_line_is_removed_if_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)

    def fail() -> None:
        with progress.working("reading"):
            terminal.written.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_short_wait_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch, 3_600.0)
    with progress.working("reading"):
        pass
    assert terminal.getvalue() == "\r\x1b[K"


def test_a_pipe_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.working("reading"):
        pass
    assert capsys.readouterr() == ("", "")


CLUSTER = "examples/preemption/cluster.yaml"
MANIFEST = "examples/admit/gang.yaml"
# A command line for each command that reads files, and what it shows at the end of each part of its work.
PARTS = {
    f"audit -f {CLUSTER}": [
        "reading objects: 21",
        "auditing 20 objects, rules: 44 of 44",
        "writing the report",
    ],
    f"audit --diff {MANIFEST} {CLUSTER}": [
        "reading objects: 3",
        "auditing 3 objects, rules: 23 of 23",
        "reading objects: 21",
    ],
    f"admit -f {MANIFEST}": ["reading objects: 3", "admitting 3 objects"],
    f"admit -f {MANIFEST} --existing {CLUSTER}": ["reading stored objects: 21", "reading objects: 3"],
    f"whatif -f {CLUSTER} -A": ["reading objects: 21", "planning on 4 nodes: 1 of 1"],
    f"whatif -f {CLUSTER} --group research/train": ["reading objects: 21", "planning on 4 nodes: 1 of 1"],
    f"whatif -f {CLUSTER} --victim team-d/notebook": ["reading objects: 21", "planning on 4 nodes"],
    f"preflight -f {CLUSTER} --to 1.38": ["reading objects: 21", "comparing the releases"],
    f"why group research/train -f {CLUSTER}": ["reading objects: 21", "planning on 4 nodes: 1 of 1"],
    "report -f examples/preemption/records.yaml": ["reading objects: 1"],
    f"migrate -f {TRAINING} --to podium": ["reading objects: 518", "planning the migration"],
    f"convert -f {MANIFEST} --to scheduling.podium.dev/v1beta1": [
        "converting objects: 3",
        "writing objects: 3 of 3",
    ],
}


@pytest.mark.parametrize(("line", "parts"), PARTS.items())
def test_each_part_of_a_command_says_what_it_does(
    line: str, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    @contextmanager
    def recorded(words: str, total: int = 0) -> Iterator[progress.Work]:
        work = progress.Work(words, total)
        yield work
        shown.append(str(work))

    monkeypatch.setattr(progress, "working", recorded)
    done = call(f"podium {line}", ROOT)
    assert done.code in (0, 3), done.stderr
    assert shown[: len(parts)] == parts


def test_a_plan_counts_its_search_and_the_domains_that_it_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = []

    class NotedWork(progress.Work):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "note" and value:
                notes.append(value)
            super().__setattr__(name, value)

    monkeypatch.setattr(progress, "Work", NotedWork)
    racks = "examples/preemption/racks.yaml"
    done = call(f"podium whatif -f {racks} --group research/train --domains 1", ROOT)
    assert done.code == 0, done.stderr
    explained = notes.index(", explaining the decision")
    steps = [f", search step {number}" for number in range(1, explained + 1)]
    assert notes == [*steps, ", explaining the decision", ", topology domain 1 of 1"]
    assert steps


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}}
JSON = json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, POD]}).encode()
SIZE, ONE = len(JSON), len(json.dumps(POD))
# The files of an input, the names that a command gives, and the bytes that are read after each document.
BYTES = {
    "the items of a List": ({"a.json": JSON}, ["a.json"], [f"{ONE} of {SIZE}", f"{2 * ONE} of {SIZE}"]),
    "two files": (
        {"a.json": JSON, "b.yaml": b"{apiVersion: v1, kind: Pod}"},
        ["a.json", "b.yaml"],
        [f"{ONE} of {SIZE + 27}", f"{2 * ONE} of {SIZE + 27}", f"{SIZE + 27} of {SIZE + 27}"],
    ),
    "documents of YAML": (
        {"a.yaml": b"---\napiVersion: v1\nkind: Pod\n---\n\n---\nkind: Pod\napiVersion: v1\n"},
        ["a.yaml"],
        ["28 of 63", "63 of 63"],
    ),
    "a folder": ({"of/a.yaml": b"{apiVersion: v1, kind: Pod}"}, ["of"], ["27"]),
}


@pytest.mark.parametrize(("files", "names", "shown"), BYTES.values(), ids=list(BYTES))
def test_a_reading_counts_the_bytes_of_its_files(
    files: dict[str, bytes],
    names: list[str],
    shown: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inputs, "_MB", 1)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in names]
    work = progress.Work("reading")
    documents = inputs.tracked(work, paths, read_documents(InputFiles(paths)))
    assert [work.note for _ in documents] == [f", {numbers} MB" for numbers in shown]


def test_the_bytes_of_a_compressed_file_are_those_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_MB", 1)
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(JSON))
    size = path.stat().st_size
    work = progress.Work("reading")
    documents = inputs.tracked(work, [str(path)], read_documents(InputFiles([str(path)])))
    assert [work.note for _ in documents] == [
        f", {part * size // SIZE} of {size} MB" for part in (ONE, 2 * ONE)
    ]


def test_each_command_that_waits_for_files_is_listed() -> None:
    """`podium ui` reads files as `why` does. The others read a cluster, or answer at once."""
    listed = {line.split()[0] for line in PARTS}
    clusters = {"doctor", "dump", "webhook", "controller", "scheduler"}
    assert set(COMMANDS) - listed - clusters == {"ui", "explain", "manifests", "completion"}


def test_a_reading_shows_progress_from_its_first_request_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    watcher = progress.TerminalProgress()
    with watcher.reading():
        assert terminal.getvalue() == "\r\x1b[Kreading the resources that the server has"
        watcher.message("context prod")
    assert terminal.getvalue().split("\r\x1b[K")[2:] == ["podium: context prod\n", ""]
