"""`.podium.yaml`: its location, its precedence, and files that must not count."""

import os
from pathlib import Path

import pytest
from tests.support.calling import call

from podium.cli.commands.audit import choose_config

CONFIG = (
    "apiVersion: config.podium.dev/v1\nkind: AuditConfiguration\n"
    "severities: {template-class-missing: error}\n"
)
POD = (
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n---\n"
    "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web}\n"
    "spec: {replicas: 1, template: {spec: {priorityClassName: absent, containers: []}}}\n"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder in a repository, with a file in its root."""
    folder = tmp_path / "repository" / "deploy" / "web"
    folder.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / ".podium.yaml").write_text(CONFIG, "utf-8")
    (folder / "web.yaml").write_text(POD, "utf-8")
    return folder


def _chosen(folder: Path, option: str | None = None, home: str = "/root/none", **environ: str) -> str | None:
    return choose_config(option, environ, folder, Path(home))


def test_the_root_of_the_repository_is_searched(tree: Path) -> None:
    assert _chosen(tree) == "../../.podium.yaml"


def test_the_nearest_file_wins(tree: Path) -> None:
    (tree.parent / ".podium.yaml").touch()
    assert _chosen(tree) == "../.podium.yaml"
    (tree / ".podium.yaml").touch()
    assert _chosen(tree) == ".podium.yaml"


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        ("a.yaml", "b.yaml", "a.yaml"),
        (None, "b.yaml", "b.yaml"),
        (None, "", "../../.podium.yaml"),
        ("", "b.yaml", None),
    ],
)
def test_the_option_wins_over_the_variable_and_that_over_the_file(
    option: str | None, variable: str, expected: str | None, tree: Path
) -> None:
    assert _chosen(tree, option, PODIUM_CONFIG=variable) == expected


def test_no_folder_above_the_repository_is_searched(tree: Path) -> None:
    (tree.parents[1] / ".podium.yaml").rename(tree.parents[2] / ".podium.yaml")
    assert _chosen(tree) is None


def test_outside_a_repository_only_the_current_folder_is_searched(tree: Path) -> None:
    (tree.parents[1] / ".git").rmdir()
    assert _chosen(tree) is None
    assert _chosen(tree.parents[1]) == ".podium.yaml"


def test_the_home_folder_is_not_searched_from_below(tree: Path) -> None:
    home = str(tree.parents[1])
    assert _chosen(tree, home=home) is None
    assert _chosen(tree.parents[1], home=home) == ".podium.yaml"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")
def test_a_file_above_that_another_user_owns_does_not_count(tree: Path) -> None:
    """Another user can make /tmp a repository."""
    os.chown(tree.parents[1] / ".podium.yaml", 4711, 4711)
    assert _chosen(tree) is None
    assert _chosen(tree.parents[1]) == ".podium.yaml"


@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_only_a_file_counts(kind: str, tree: Path) -> None:
    """A pipe would block."""
    path = tree / ".podium.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("absent")
    assert _chosen(tree) == "../../.podium.yaml"


def test_an_audit_names_the_file_that_it_found(tree: Path) -> None:
    found = call("podium audit -f web.yaml", tree)
    assert found.code == 3, found.stdout + found.stderr
    assert "podium: configuration ../../.podium.yaml (--config '' for none)" in found.stderr
    off = call("podium audit -f web.yaml --config ''", tree)
    assert (off.code, "configuration" in off.stderr) == (0, False)


def test_the_file_is_no_manifest_of_its_folder(tree: Path) -> None:
    done = call("podium audit -R -f . --strict", tree.parents[1])
    assert done.code == 3, done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CONFIG + "run: rm\n", ".podium.yaml, document 1, line 4: run: Extra inputs are not permitted"),
        ("apiVersion: v1\nkind: Pod\n", ".podium.yaml"),
        ("!!python/object/apply:os.system ['touch owned']\n", ".podium.yaml"),
        ("{{ }}", ".podium.yaml"),
        ("", ".podium.yaml"),
    ],
    ids=["an unknown key", "another kind", "a tag", "a template", "empty"],
)
def test_a_wrong_file_is_one_line_and_runs_nothing(text: str, words: str, tree: Path) -> None:
    (tree / ".podium.yaml").write_text(text, "utf-8")
    done = call("podium audit -f web.yaml", tree)
    assert (done.code, words in done.stderr.splitlines()[-1]) == (1, True), done.stderr
    assert not (tree / "owned").exists()


def test_a_deleted_folder_has_no_file(tmp_path: Path) -> None:
    done = call("mkdir gone; cd gone; rmdir ../gone; podium audit -f nothing.yaml", tmp_path)
    assert "Traceback" not in done.stderr
