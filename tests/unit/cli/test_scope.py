"""-n, -A and -l on files: each command reads the selected part, or reports that nothing is left."""

from datetime import UTC, datetime

import pytest
from tests.support.calling import call
from tests.support.ui.running import ROOT, TRAINING

from podium.cli.ui.reading import Files
from podium.documents.scope import Scope
from podium.documents.sources import InputFiles

RECORDS = "examples/preemption/records.yaml"


@pytest.mark.parametrize(
    "line",
    [
        f"podium audit -f {TRAINING}",
        f"podium preflight -f {TRAINING} --to 1.38",
        f"podium migrate -f {TRAINING} --to native",
        f"podium report -f {RECORDS}",
        f"podium ui -f {TRAINING}",
    ],
)
def test_a_namespace_without_objects_is_a_usage_error_that_names_the_others(line: str) -> None:
    done = call(f"{line} -n absent", ROOT)
    assert done.code == 2, done.stdout + done.stderr
    assert "nothing is left of the input (namespace absent only). Left out: " in done.stderr
    assert "podium-system" in done.stderr or "inference, platform" in done.stderr


def test_labels_without_objects_are_a_usage_error() -> None:
    done = call(f"podium audit -f {TRAINING} -l app=absent", ROOT)
    assert done.code == 2
    assert "nothing is left of the input (objects labelled app=absent only)" in done.stderr


@pytest.mark.parametrize(("flags", "plans"), [("-A", "6 plans"), ("-n podium-system", "6 plans")])
def test_a_report_of_files_takes_the_flags_of_a_live_one(flags: str, plans: str) -> None:
    assert call(f"podium report -f {RECORDS} {flags}", ROOT).stdout.startswith(plans)


async def test_the_pages_of_a_namespace_of_files_have_no_other_groups() -> None:
    files = Files(InputFiles([str(ROOT / TRAINING)]), Scope("team-vision"))
    answers = await files.read(lambda: datetime.now(UTC))
    assert {key.namespace for key in answers.cluster.near.state.groups} == {"team-vision"}
    assert "namespace team-vision only" in answers.cluster.source


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("-A", ["6 workloads are not all eligible", "PodGroup team-speech/distill"]),
        ("-n team-vision", ["2 workloads are not all eligible", "PodGroup team-vision/finetune"]),
        ("-l job-name=retrain", ["PodGroup team-ranking/retrain is not eligible"]),
    ],
)
def test_whatif_plans_for_the_pending_pods_of_a_part(flags: str, found: list[str]) -> None:
    """A group that does not exist is named and left out."""
    done = call(f"podium whatif -f {TRAINING} {flags}", ROOT)
    assert all(each in done.stdout for each in found), done.stdout + done.stderr
    assert ("left out, because these groups are not in the input: platform/smoke" in done.stderr) == (
        flags == "-A"
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("-n absent", "no target: no pod or group is pending (namespace absent only)"),
        ("-l a=b", "no target: no pod or group is pending (objects labelled a=b only)"),
        ("-l =b", "is not a label requirement, such as app=web"),
        ("-n a -A", "-n and -A exclude each other"),
        ("-A --pod a/b", "-A and -l exclude --pod, --group and --victim"),
        ("-l a=b --group a/b", "-A and -l exclude --pod, --group and --victim"),
        ("-n a --add examples/preemption/urgent.yaml", "--add excludes -n, -A and -l"),
        ("", "use --pod or --group, or -A for all; pending groups: "),
    ],
)
def test_whatif_without_a_target_is_a_usage_error(flags: str, words: str) -> None:
    done = call(f"podium whatif -f {TRAINING} {flags}", ROOT)
    assert (done.code, words in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("flag", ["--as=ann", "--request-timeout=1s", "--context=x"])
@pytest.mark.parametrize(
    "line", [f"audit -f {TRAINING}", f"report -f {RECORDS}", f"why pod a/b -f {TRAINING}"]
)
def test_flags_of_a_live_cluster_are_refused_with_files(line: str, flag: str) -> None:
    done = call(f"podium {line} {flag}", ROOT)
    assert (done.code, "excludes the flags of a live cluster" in done.stderr) == (2, True)
