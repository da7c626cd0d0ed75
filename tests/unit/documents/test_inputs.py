"""-f FILE|DIR|-, and the flags that combine with it or exclude it."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner
from tests.support.shell import run

from podium.api.inputnotes import InputNotes
from podium.cli.inputs import file_options, load
from podium.cli.kubeoptions import KubeOptions, kube_options
from podium.cli.render.output import Output, output_options
from podium.documents.load import load_state
from podium.documents.sources import InputFiles, read_documents
from podium.errors import PodiumError, PodiumUsageError


def _pod(name: str) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}).encode()


def _names(*filenames: str) -> list[str]:
    return [document.value()["metadata"]["name"] for document in read_documents(InputFiles(filenames))]


def test_files_come_in_the_order_given_and_each_once(tmp_path: Path) -> None:
    first, second = tmp_path / "b", tmp_path / "a"
    first.write_bytes(_pod("b"))
    second.write_bytes(gzip.compress(_pod("a")))
    assert _names(str(first), str(second), str(first)) == ["b", "a"]


def test_a_folder_gives_its_manifests_in_order_and_not_those_deeper(tmp_path: Path) -> None:
    """A folder is read as by kubectl without --recursive, and gzip files too."""
    for name in ("b.yaml", "a.json", "c.yml", "notes.txt", "d.json.gz", "e.gz"):
        data = _pod(name.partition(".")[0])
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    (tmp_path / "deeper.yaml").mkdir()
    (tmp_path / "deeper.yaml" / "f.json").write_bytes(_pod("f"))
    assert _names(str(tmp_path)) == ["a", "b", "c", "d"]


def test_a_folder_may_hold_manifests_without_objects(tmp_path: Path) -> None:
    """A file of comments only is common, and kubectl accepts it."""
    (tmp_path / "a.yaml").write_text("# nothing yet\n")
    (tmp_path / "b.yaml").write_bytes(_pod("b"))
    assert _names(str(tmp_path)) == ["b"]


def test_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(_pod("a")))))
    (document,) = read_documents(InputFiles(["-"]))
    assert str(document.origin) == "<stdin>, document 1"


def test_a_pipe_is_a_file(tmp_path: Path) -> None:
    """`-f <(command)` is a pipe; it can be read once, so its lines cannot be looked up later."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", 'cat >"$0"', str(pipe)], stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(_pod("a"))
        writer.stdin.close()
        loaded = load_state(read_documents(InputFiles([str(pipe)])), strict=False)
    (pod,) = loaded.state.pods.values()
    assert pod.metadata.name == "a"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_a_file_without_objects_is_refused(tmp_path: Path, text: str) -> None:
    """An empty file usually comes from a command that failed; an empty report would hide it."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(PodiumError) as refused:
        _names(str(path))
    assert str(refused.value) == f"{path}: no Kubernetes object found"


def test_empty_stdin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(PodiumError) as refused:
        _names("-")
    assert str(refused.value) == "<stdin>: no Kubernetes object found"


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(_pod("a"))
    with pytest.raises(PodiumError) as refused:
        _names(str(tmp_path))
    assert str(refused.value) == f"{tmp_path}: no Kubernetes object found"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError) as refused:
        _names(str(tmp_path / "a"))
    assert str(refused.value) == f"{tmp_path / 'a'}: read failed: No such file or directory"


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal is simulated, because the administrator may read everything."""

    def refuse(self: Path, _mode: str) -> IO[bytes]:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / "a.json").write_bytes(_pod("a"))
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PodiumError) as refused:
        _names(str(tmp_path))
    assert str(refused.value) == f"{tmp_path / 'a.json'}: read failed: Permission denied"


TREE = {
    "Chart.yaml": "apiVersion: v2\nname: chart\n",
    "values.yaml": "replicas: 2\n",
    "templates/quoted.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: '{{ .Values.name }}'}\n",
    "templates/plain.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\n",
    "templates/control.yaml": "{{- if .Values.on }}\nkind: Pod\n{{- end }}\n",
    "templates/late.yaml": 'metadata:\n  {{- include "labels" . }}\n  name: a\nkind\n',
    "base/kustomization.yaml": "resources: [pod.yaml]\npatches: [{path: ../patch.yaml}, {patch: 'a: 1'}]\n",
    "base/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: base}\n---\n- a list\n---\njust text\n",
    "patch.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: base}\nspec: {priority: 5}\n",
    "broken.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n",
    "wrong.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: wrong}\nspec: {priority: high}\n",
    "overlay/kustomization.yml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    ".hidden/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: hidden}\n",
}
SKIPPED = {
    "Chart.yaml, document 1": "no Kubernetes object",
    "values.yaml, document 1": "no Kubernetes object",
    "base/pod.yaml, document 2": "no Kubernetes object",
    "base/pod.yaml, document 3": "no Kubernetes object",
    "templates/quoted.yaml": "template to be rendered first (helm template)",
    "templates/control.yaml": "template to be rendered first (helm template)",
    "templates/late.yaml": "template to be rendered first (helm template)",
    "base/kustomization.yaml": "kustomize source to be built first (kubectl kustomize)",
    "overlay/kustomization.yml": "kustomize source to be built first (kubectl kustomize)",
    "patch.yaml": "kustomize source to be built first (kubectl kustomize)",
    "broken.yaml, document 1": "cannot be read",
    "wrong.yaml, document 1": "cannot be read",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with each kind of file that is no manifest."""
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_read_as_it_is_and_what_it_skips_is_noted(tree: Path) -> None:
    notes = InputNotes()
    documents = read_documents(InputFiles([str(tree)], recursive=True), notes)
    loaded = load_state(documents, strict=False, notes=notes)
    assert sorted(name for _, name in loaded.state.pods) == ["base", "plain"]
    assert {each.place.removeprefix(f"{tree}/"): str(each.reason) for each in notes.skipped} == SKIPPED
    (line,) = notes.lines()
    assert line.startswith("skipped 12 documents of folders (2 cannot be read: ")
    assert "wrong.yaml, document 1, line 4: spec.priority: expected integer or null, got string" in line


@pytest.mark.parametrize("name", sorted({place.partition(",")[0] for place in SKIPPED} - {"base/pod.yaml"}))
def test_strict_refuses_what_a_folder_skips(tree: Path, name: str) -> None:
    for other in set(TREE) - {name, "Chart.yaml", "base/kustomization.yaml"}:
        (tree / other).unlink()
    if not name.startswith("templates"):
        (tree / "Chart.yaml").unlink(missing_ok=True)
        (tree / "Chart.yaml").write_text("") if name == "Chart.yaml" else None
    with pytest.raises(PodiumError):
        load_state(read_documents(InputFiles([str(tree)], recursive=True, strict=True)), strict=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("values.yaml", "this is not a Kubernetes object"),
        ("templates/late.yaml", "looks like a template"),
        ("overlay/kustomization.yml", "Build it first: kubectl kustomize DIR | podium ... -f -"),
        ("broken.yaml", "malformed YAML"),
    ],
)
def test_a_file_that_is_named_must_hold_objects(tree: Path, name: str, words: str) -> None:
    with pytest.raises(PodiumError, match=words):
        _names(str(tree / name))


def test_a_folder_of_skipped_files_only_says_so(tree: Path) -> None:
    with pytest.raises(PodiumUsageError) as refused:
        _names("overlay")
    assert str(refused.value) == (
        "overlay: no Kubernetes object found (1 skipped, such as overlay/kustomization.yml: "
        "kustomize source to be built first (kubectl kustomize))"
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("base/*.yaml", ["base"]),
        ("**/p*.yaml", ["base", "plain"]),
        ("templates/plain.yaml,base", ["plain", "base"]),
        ("b*", ["base"]),
    ],
)
def test_globs_and_comma_lists_name_several_files(tree: Path, name: str, found: list[str]) -> None:
    assert _names(name) == found


def test_a_name_with_a_comma_or_a_bracket_is_a_file_if_it_exists(tmp_path: Path) -> None:
    for name in ("a,b", "a[1]"):
        (tmp_path / name).write_bytes(_pod("a"))
    assert _names(str(tmp_path / "a,b"), str(tmp_path / "a[1]")) == ["a", "a"]


def test_a_glob_without_matches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="no file matches"):
        _names(str(tmp_path / "*.yaml"))


def test_a_url_is_refused_with_the_command_that_reads_it() -> None:
    with pytest.raises(PodiumUsageError) as refused:
        _names("https://example.org/a.yaml")
    assert str(refused.value) == (
        "https://example.org/a.yaml: URLs are not read. "
        "Use: curl -sSfL https://example.org/a.yaml | podium ... -f -"
    )


@click.command()
@file_options
@kube_options
@output_options("table", "json")
def _command(files: InputFiles, kube: KubeOptions, output: Output) -> None:
    loaded = load(files, kube)
    click.echo(f"{len(loaded.state.pods)} {output.format} {output.file} {kube}")


def test_files_win_where_they_are_given(tmp_path: Path) -> None:
    """The flags of a live cluster then have their defaults."""
    path = tmp_path / "a"
    path.write_bytes(_pod("a"))
    done = CliRunner().invoke(_command, ["-f", str(path)])
    assert (done.exit_code, done.stdout) == (0, f"1 table None {KubeOptions()}\n")


@pytest.mark.parametrize(
    "flags",
    [["--kubeconfig", "x"], ["--context", "x"], ["--as", "x"], ["--request-timeout", "0"]],
    ids=lambda flags: flags[0],
)
def test_flags_of_a_live_cluster_do_not_go_with_files(tmp_path: Path, flags: list[str]) -> None:
    """No given option is ignored silently."""
    done = CliRunner().invoke(_command, ["-f", str(tmp_path), *flags])
    assert done.exit_code == 2
    assert "-f reads files" in done.stderr


LABELLED = [
    ("a", {"app": "web"}),
    ("a", {"app": "db", "rank": "1"}),
    ("b", {"app": "web", "tier": "x"}),
    ("b", {"rank": "2"}),
]


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], ["0", "1", "2", "3"]),
        (["-A"], ["0", "1", "2", "3"]),
        (["-n", "a"], ["0", "1"]),
        (["-l", "app=web"], ["0", "2"]),
        (["-n", "b", "-l", "app==web"], ["2"]),
        (["-l", "app!=web"], ["1", "3"]),
        (["-l", "app in (db, x)"], ["1"]),
        (["-l", "app notin (db),tier"], ["2"]),
        (["-l", "!app"], ["3"]),
        (["-l", "rank > 1"], ["3"]),
        (["-l", "rank<2,app"], ["1"]),
    ],
    ids=" ".join,
)
def test_namespace_and_labels_filter_files_as_they_filter_a_cluster(
    tmp_path: Path, flags: list[str], found: list[str]
) -> None:
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": str(name), "namespace": where, "labels": labels},
        }
        for name, (where, labels) in enumerate(LABELLED)
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
    whole = {"apiVersion": "v1", "kind": "List", "items": [*items, node]}
    (tmp_path / "a.json").write_text(json.dumps(whole), "utf-8")

    @click.command()
    @file_options
    @kube_options
    def command(files: InputFiles, kube: KubeOptions) -> None:
        state = load(files, kube).state
        click.echo(" ".join(sorted(name for _, name in state.pods)))
        assert list(state.nodes) == ["node"]

    done = CliRunner().invoke(command, ["-f", str(tmp_path / "a.json"), *flags])
    assert done.stdout.split() == found


@pytest.mark.parametrize("selector", ["app in web", "a=b,,", "=x"])
def test_a_selector_that_is_none_is_a_usage_error(tmp_path: Path, selector: str) -> None:
    done = CliRunner().invoke(_command, ["-f", str(tmp_path), "-l", selector])
    assert (done.exit_code, "is not a label requirement, such as app=web" in done.stderr) == (2, True)


def test_one_namespace_and_all_exclude_each_other() -> None:
    done = CliRunner().invoke(_command, ["-n", "a", "-A"])
    assert done.exit_code == 2
    assert "-n and -A exclude each other" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--as-group", "a"], "--as-group needs --as"),
        (["--request-timeout", "soon"], "'soon' is not a duration, such as 30s or 2m"),
    ],
)
def test_a_mistake_in_the_flags_of_requests_is_a_usage_error(flags: list[str], words: str) -> None:
    done = CliRunner().invoke(_command, flags)
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(("text", "limit"), [("30", 30.0), ("1m30s", 90.0), ("0", 0.0)])
def test_the_time_of_a_request_is_written_as_for_kubectl(
    text: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[KubeOptions] = []
    monkeypatch.setattr("podium.cli.inputs.load_live", lambda kube, *_: given.append(kube))
    CliRunner().invoke(_command, ["--request-timeout", text, "--as", "a", "--as-group", "b"])
    assert given == [KubeOptions(user="a", groups=("b",), request_timeout=limit)]
    assert given[0].requests == ("a", ("b",), limit)


def test_strict_reaches_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("kind: ConfigMap\napiVersion: v1\n")
    done = CliRunner().invoke(_command, ["-f", str(path), "--strict"])
    assert isinstance(done.exception, PodiumError)


def test_importing_the_shared_flags_imports_no_client() -> None:
    """`--help` of every command that reads a cluster imports this module."""
    heavy = "aiohttp kubernetes_asyncio yaml rich pydantic numpy"
    script = f"import sys, podium.cli.inputs; print([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-f "$UNSET"` must not read the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_bytes(_pod("a"))
    with pytest.raises(PodiumError, match="empty file name"):
        _names("")


def _asked(*arguments: str) -> str:
    @click.command()
    @file_options
    @kube_options
    def command(**_given: object) -> None:
        """Do nothing."""

    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2
    return done.stderr


def test_standard_input_is_read_once_only() -> None:
    """A second read would find stdin empty."""
    assert "Standard input (-) is given twice. Give it once." in _asked("-f", "-", "-f", "-")


def test_an_invalid_namespace_is_refused() -> None:
    """In a path it would select another resource, with an empty result that looks clean."""
    assert "-n: '../x' is not a valid namespace name." in _asked("-n", "../x")


ENDLESS = {
    "a device": "podium audit -f /dev/zero",
    "standard input": "podium audit -f - </dev/zero",
    "a pipe of text": "yes | podium audit -f -",
    "a named pipe": "mkfifo pipe; (yes >pipe &) ; podium audit -f pipe",
    "a sparse file": "truncate -s 8M file.yaml; podium audit -f file.yaml",
    "a large file": "yes | head -c 8000000 >file.yaml; podium audit -f file.yaml",
    "a configuration": "podium audit --config /dev/zero -f pod.json",
    "a baseline": "podium audit --baseline /dev/zero -f pod.json",
    "an addition": "podium whatif --add /dev/zero -f pod.json",
    "a kustomization": "mkdir d; ln -s /dev/zero d/kustomization.yaml; podium audit -f d",
}


@pytest.mark.parametrize("line", ENDLESS.values(), ids=list(ENDLESS))
def test_input_without_end_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "pod.json").write_text('{"apiVersion": "v1", "kind": "Pod"}', "utf-8")
    (tmp_path / "patched.py").write_text(
        "from podium.cli.main import main\n"
        "from podium.documents import textfile\n"
        "textfile.MAX_BYTES = 1 << 22\n"
        "main()\n",
        "utf-8",
    )
    done = run(line.replace("podium", f"{sys.executable} patched.py"), tmp_path)
    assert done.returncode in (1, 2)
    assert len(done.stderr.splitlines()) <= 4
    assert "Traceback" not in done.stderr
