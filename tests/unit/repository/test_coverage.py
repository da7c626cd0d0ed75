"""The table of `make coverage`: sums by package, and the modules that need a reason."""

from pathlib import PurePosixPath

from tools.coverage import Counts, counts, table

FILES = {
    PurePosixPath("core/podium/api/full.py"): Counts(10, 10, 4, 4),
    PurePosixPath("core/podium/api/half.py"): Counts(10, 5, 0, 0),
    PurePosixPath("cli/podium/cli/low.py"): Counts(10, 0, 2, 0),
    PurePosixPath("core/podium/empty.py"): Counts(),
}


def test_a_report_becomes_counts() -> None:
    summary = {"num_statements": 3, "covered_lines": 2, "num_branches": 4, "covered_branches": 1}
    found = counts({"files": {"core/podium/a.py": {"summary": summary}}})
    assert found == {PurePosixPath("core/podium/a.py"): Counts(3, 2, 4, 1)}


def test_each_package_and_root_has_a_sum() -> None:
    rows = [line.split() for line in table(FILES)]
    assert ["core", "podium.api", "20", "4", "79.2"] in rows
    assert ["core", "podium", "0", "0", "100.0"] in rows
    assert ["core", "20", "4", "79.2"] in rows
    assert ["all", "30", "6", "52.8"] in rows


def test_only_modules_of_some_roots_need_a_reason() -> None:
    assert list(table(FILES))[-2:] == [
        "modules of core, kubecel, planner and schedulerplugin below 95 %: 1",
        " 50.0  core/podium/api/half.py",
    ]
