"""Reports in files: complete or absent, and the former file survives a failure."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from podium.cli.main import command
from podium.cli.render.output import deliver, write_manifests
from podium.errors import PodiumError

WRITE_TO_STDOUT = """
from podium.cli.main import command
from podium.cli.render.output import deliver, write_manifests
from podium.errors import PodiumError
try:
    deliver("report" * 100_000, None)
except PodiumError as error:
    raise SystemExit(str(error))
"""


EXAMPLES = Path(__file__).parents[4] / "examples"
TABLES = {
    "audit": ["-f", "training-1.37.json.gz"],
    "admit": ["-f", "preemption/urgent.yaml"],
    "whatif": ["-f", "preemption/cluster.yaml", "--group", "research/train"],
    "why": ["group", "team-ranking/retrain", "-f", "training-1.37.json.gz"],
    "migrate": ["-f", "training-1.37.json.gz", "--to", "podium"],
    "report": ["-f", "preemption/records.yaml"],
}


@pytest.mark.parametrize(
    ("columns", "widest"), [("40", 60), ("60", 60), ("", 100), ("120", 120), ("200", 140)]
)
@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_as_wide_as_the_terminal(
    name: str, columns: str, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS sets the width within bounds; the default is 100, as in a pipe.

    Tables use the full width.
    """
    monkeypatch.chdir(EXAMPLES)
    done = CliRunner(env={"COLUMNS": columns}).invoke(command, [name, *TABLES[name]])
    lengths = [len(line) for line in done.stdout.splitlines()]
    assert max(lengths) <= widest
    assert name == "admit" or max(lengths) > widest * 0.75


def test_standard_output_gets_the_report_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Standard output has only the report, as UTF-8 whatever the locale."""
    deliver("caf\u00e9 \udcff\n", None)
    assert capfdbinary.readouterr() == ("caf\u00e9 \\udcff\n".encode(), b"")


def test_file_gets_the_report_and_stderr_its_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The file has the report, with the access that the umask gives, and nothing else is left behind."""
    path = tmp_path / "report.html"
    path.write_text("old")
    deliver("new", str(path))
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", f"wrote {path}\n")


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full half way, the old report is complete and nothing of the new one remains."""
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(PodiumError, match=r"report\.html: write failed: No space left"):
        deliver("new report", str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing/report.html", "."])
def test_impossible_path_is_one_line(tmp_path: Path, name: str) -> None:
    """A missing folder, or a folder as the file, gives one line with its name."""
    with pytest.raises(PodiumError) as caught:
        deliver("report", f"{tmp_path}/{name}")
    assert str(caught.value).startswith(f"{tmp_path}/{name}: write failed: ")
    assert "\n" not in str(caught.value)


LINKS = {
    "link": ("checkout/report", "../secret", "checkout/report"),
    "link without a target": ("checkout/report", "../absent", "checkout/report"),
    "link to a folder": ("checkout/out", "../folder", "checkout/out/report"),
    "link to a device": ("checkout/report", "/dev/null", "checkout/report"),
    "folder of a checkout": ("checkout", "folder", "checkout/report"),
}


@pytest.mark.parametrize(("link", "target", "output"), LINKS.values(), ids=list(LINKS))
def test_no_output_is_written_through_a_link(
    link: str, target: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's checkout may hold a link in the place of a report."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "secret").write_text("old")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(target)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PodiumError, match=f"{link} is a symbolic link"):
        deliver("new", output)
    with pytest.raises(PodiumError, match=f"{link} is a symbolic link"):
        write_manifests(output, {"a.yaml": [{}]})
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "secret").read_text() == "old"


def test_an_absolute_path_may_lead_through_a_link(tmp_path: Path) -> None:
    """Such as /tmp on macOS."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    deliver("new", str(tmp_path / "link" / "report"))
    assert (tmp_path / "real" / "report").read_text() == "new"


def test_links_of_the_system_lead_to_its_streams(tmp_path: Path) -> None:
    program = "from podium.cli.render.output import deliver; deliver('report', '/dev/stdout')"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "report")


def test_device_is_written_to_and_stays_a_device() -> None:
    """A device is not replaced by a file of its name."""
    deliver("report", os.devnull)
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["audit", "-f", "-", "--fail-on", "never"]], ids=" ".join
)
@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_a_standard_output_that_cannot_be_written_is_one_line(arguments: list[str], stdout: str) -> None:
    """If stdout is full or closed, the command ends with one line and exit code 1, without a traceback."""
    program = shlex.join([sys.executable, "-c", "from podium.cli.main import main; main()", *arguments])
    run = subprocess.run(
        ["/bin/sh", "-c", f"{program} {stdout}"],
        input='{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}',
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert line.startswith("podium: ")


def test_a_closed_standard_input_is_an_empty_one() -> None:
    """`-f - <&-` gives one line without a traceback."""
    program = shlex.join(
        [sys.executable, "-c", "from podium.cli.main import main; main()", "audit", "-f", "-"]
    )
    run = subprocess.run(["/bin/sh", "-c", f"{program} <&-"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "podium: <stdin>: no Kubernetes object found\n")


def test_full_standard_output_is_one_line() -> None:
    """A standard output that fails gives one line, also when the process ends."""
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [sys.executable, "-c", WRITE_TO_STDOUT],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.stderr == "standard output: write failed: No space left on device\n"
    assert run.returncode == 1


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_the_streams_are_utf8_whatever_the_code_page_is(encoding: str, tmp_path: Path) -> None:
    """Windows uses a code page for pipes, which lacks characters of names."""
    name = tmp_path / "gro\u00dfe-\u4e2d.yaml"
    done = subprocess.run(
        [sys.executable, "-c", "from podium.cli.main import main; main()", "audit", "-f", str(name)],
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"},
        capture_output=True,
        check=False,
    )
    assert done.stderr.decode("utf-8") == f"podium: {name}: read failed: No such file or directory\n"
