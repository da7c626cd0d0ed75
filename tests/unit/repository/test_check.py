"""`make check` selects the tests that a change affects."""

from tools.check.__main__ import affected


def test_a_changed_test_comes_first() -> None:
    assert affected(["tests/unit/repository/test_check.py"])[0] == "tests/unit/repository/test_check.py"


def test_a_module_selects_the_tests_that_import_it_before_those_that_import_its_users() -> None:
    found = affected(["core/podium/api/quantity.py"])
    assert found.index("tests/integration/api/test_quantity.py") < found.index(
        "tests/unit/planner/filters/test_requests.py"
    )


def test_a_page_selects_the_tests_of_the_documentation_and_those_that_quote_it() -> None:
    found = affected(["docs/ci.md"])
    assert {"tests/docs/test_whole.py", "tests/unit/audit/ci/test_docs.py"} <= set(found)
    assert "tests/integration/api/test_quantity.py" not in found


def test_a_file_that_no_test_needs_selects_none() -> None:
    assert affected([f"examples/{1 << 40}.bin"]) == []


def test_a_file_with_server_tests_only_is_left_out() -> None:
    """A file with other tests too is chosen."""
    found = affected(["tests/support/servers.py"])
    assert "tests/docs/test_workloads.py" in found
    assert "tests/docs/test_pages.py" not in found
