"""The manifests of docs/from-other-schedulers.md and of examples/frameworks.

Those of Podium are admitted, and planned as the gangs that the page names. Each field of those of other
schedulers has a row on the page, with the result of `podium convert`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.support.calling import invoke
from tests.support.docs.pagerun import PageRun
from tests.support.docs.pages import ROOT
from tests.support.expand import add, pods

from podium.api.groups import PodGroup
from podium.api.membership import membership
from podium.api.schedulable import SCHEDULING_READS
from podium.documents.load import load_state
from podium.documents.split import split

_PAGE = (ROOT / "docs" / "from-other-schedulers.md").read_text("utf-8")
_CLUSTER = str(ROOT / "examples" / "preemption" / "cluster.yaml")
_BLOCKS = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CONVERSION = re.compile(r"^`(--from \w+ --to \S+)` makes of it:$", re.MULTILINE)
# Labels, annotations, API groups and names of other schedulers.
_THEIRS = re.compile(
    r"scheduling\.(?:x-k8s\.io|volcano\.sh)|batch\.volcano\.sh|koordinator\.sh|kai\.scheduler|yunikorn"
)
# Fields of the manifests that are Kubernetes' own.
_OWN = frozenset(("template", "containers", "restartPolicy", "name", "parallelism", "completions", "image"))


class Example(NamedTuple):
    """A manifest of the page, and the section that it is in."""

    section: str
    text: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all(self.text))


def _examples() -> Iterator[Example]:
    for section in re.split(r"^##+ ", _PAGE, flags=re.MULTILINE)[1:]:
        for text in _BLOCKS.findall(section):
            yield Example(section, text)


EXAMPLES = list(_examples())
THEIRS = [example for example in EXAMPLES if _THEIRS.search(example.text)]
OURS = [example for example in EXAMPLES if example not in THEIRS]
CONVERSIONS = [example for example in THEIRS if _CONVERSION.search(example.section)]


def _title(example: Example) -> str:
    return example.section.partition("\n")[0]


def test_from_other_schedulers(page_run: PageRun) -> None:
    """The input is Volcano's example, and the result fits."""
    (theirs,) = (example for example in CONVERSIONS if "volcano.sh" in example.text)
    (page_run.folder / "theirs.yaml").write_text(theirs.text)
    page_run.rest()


def _gangs(text: str) -> dict[str, tuple[int | None, int]]:
    """Return minCount and the number of pods of each group that controllers create for a manifest."""
    state = load_state(
        split(Path(_CLUSTER).read_bytes(), "cluster.yaml"), strict=True, reads=SCHEDULING_READS
    ).state
    state.serve_native("scheduling.k8s.io" in text)
    expansion = add(state, *yaml.safe_load_all(text))
    assert expansion.unplanned == {}
    assert all("planned as if Kueue had admitted it" in note for note in expansion.notes)
    groups = {each.ref.name: each for each in expansion.objects if isinstance(each, PodGroup)}
    names = [membership(pod, native_served=state.native_served) for pod in pods(expansion).values()]
    members = Counter(key.name for key in names if key is not None)
    assert members.keys() == groups.keys()
    return {name: (group.min_count, members[name]) for name, group in groups.items()}


def _admit_and_plan(text: str, folder: Path) -> Any:
    """Return the report of the plan; no rule and no webhook warns."""
    (folder / "ours.yaml").write_text(text)
    admitted = invoke(["admit", "-f", "ours.yaml", "--existing", _CLUSTER, "-o", "json"], folder)
    assert admitted.code == 0, admitted.stdout
    assert [
        *chain.from_iterable(each["warnings"] + each["findings"] for each in admitted.json["results"])
    ] == []
    planned = invoke(["whatif", "-f", _CLUSTER, "--add", "ours.yaml", "-o", "json"], folder)
    assert planned.code == 0, planned.stdout
    return planned.json


@pytest.mark.parametrize("example", OURS, ids=_title)
def test_a_manifest_of_podium_is_a_gang_that_fits(example: Example, tmp_path: Path) -> None:
    number = 5 if "JobSet" in example.text else 4
    assert [*_gangs(example.text).values()] == [(number, number)]
    assert _admit_and_plan(example.text, tmp_path)["outcome"] == "Fits"


# minCount and the number of members of each group, and the number of all pods.
FRAMEWORKS: dict[str, tuple[dict[str, tuple[int, int]], int]] = {
    "trainjob.yaml": ({"finetune-jobset": (2, 2)}, 2),
    "pytorchjob.yaml": ({"resnet": (3, 3)}, 3),
    "rayjob.yaml": ({"tune": (3, 3)}, 3),
    "mpijob.yaml": ({"solver": (3, 3)}, 3),
    "sparkapplication.yaml": ({"etl-executors": (4, 4)}, 5),
    "jobset.yaml": ({"pretrain-jobset": (5, 5)}, 5),
    "leaderworkerset.yaml": ({"serve-0-lws": (2, 2), "serve-1-lws": (2, 2)}, 4),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_becomes_the_gangs_of_its_row(name: str, tmp_path: Path) -> None:
    text = (ROOT / "examples" / "frameworks" / name).read_text("utf-8")
    gangs, number = FRAMEWORKS[name]
    assert _gangs(text) == gangs
    assert len(_admit_and_plan(text, tmp_path)["placements"]) == number


def test_each_framework_is_on_the_page() -> None:
    assert {path.name for path in (ROOT / "examples" / "frameworks").iterdir()} == {*FRAMEWORKS}
    assert all(f"../examples/frameworks/{name})" in _PAGE for name in FRAMEWORKS)


@pytest.mark.parametrize("example", CONVERSIONS, ids=_title)
def test_convert_prints_what_the_page_shows(example: Example, tmp_path: Path) -> None:
    """The manifest is the next one in the section, and the indented lines are those on stderr."""
    (tmp_path / "theirs.yaml").write_text(example.text)
    options = _CONVERSION.search(example.section)
    assert options is not None
    done = invoke(["convert", "-f", "theirs.yaml", *options[1].split()], tmp_path)
    result = example.section.partition(options[0])[2]
    assert done.stdout.removeprefix("---\n") == _BLOCKS.findall(result)[0]
    assert done.stderr == "".join(re.findall(r"^ {4}(theirs\.yaml.*\n)", result, re.MULTILINE))
    assert done.code == 3


@pytest.mark.parametrize("example", THEIRS, ids=_title)
def test_each_field_of_another_scheduler_has_a_row(example: Example) -> None:
    """Labels and annotations count, and the fields of the kinds of other schedulers."""
    rows = "".join(line for line in example.section.splitlines() if line.startswith("| "))
    for document in example.documents:
        template = document if "kind" not in document else document["spec"].get("template", {})
        keys = [
            key
            for meta in (document.get("metadata", {}), template.get("metadata", {}))
            for part in ("labels", "annotations")
            for key in meta.get(part, {})
        ]
        if _THEIRS.search(document.get("apiVersion", "")):
            keys += [*document["spec"], *(key for task in document["spec"].get("tasks", []) for key in task)]
        for key in {*keys} - _OWN - {"scheduling.podium.dev/gang"}:
            assert re.search(rf"[`.]{re.escape(key)}(?:\[\])?`", rows), key


def test_every_scheduler_of_the_page_has_an_example() -> None:
    titles = [_title(example) for example in THEIRS]
    assert titles == ["Coscheduling", "Koordinator", "PodGroup", "Job", "KAI", "YuniKorn"]
