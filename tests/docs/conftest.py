"""Fixtures of the pages: the test of docs/NAME.md is `test_name`, and README's is `test_readme`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.docs.pagerun import PageRun
from tests.support.docs.pages import commands, pages
from tools.devcluster.controlplane import cluster, folders


@pytest.fixture
def page_run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PageRun]:
    """Yield the page named by the test; at the end all of its commands must have run."""
    page = pages()[request.node.originalname.removeprefix("test_")]
    run = PageRun(tmp_path, *commands(page), shell=page == pages()["readme"])
    yield run
    cluster.down(folders.clusters(run.environ) / "podium", sys.stderr)
    assert not run.left
