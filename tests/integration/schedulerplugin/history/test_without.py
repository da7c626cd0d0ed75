"""On real API servers without PreemptionRecord the log has the remedy, and scheduling is unaffected."""

import asyncio
import random
from math import inf

import pytest
from click.testing import CliRunner
from tests.support.history import NAME, plan
from tests.support.servers import Server

from podium.cli.main import command
from podium.errors import PodiumError
from podium.kube.connection import connect
from podium.schedulerplugin.history.writer import History

pytestmark = pytest.mark.server


async def test_the_scheduler_is_told_what_to_apply(server_without: Server) -> None:
    """The log has one line, although the last write is another attempt."""
    logged: list[str] = []
    async with connect(str(server_without.kubeconfig), None) as connection:
        kept = History(
            connection,
            "default",
            NAME,
            lambda: inf,
            sleep=asyncio.sleep,
            random=random.random,
            log_event=lambda _, fields: logged.append(str(fields["error"])),
        )
        assert await kept.restore() == []
        task = asyncio.create_task(kept.run())
        await asyncio.sleep(0)
        kept.append(plan(0))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (line,) = logged
    assert "podium manifests crds" in line


def test_the_report_says_what_is_missing(server_without: Server) -> None:
    arguments = ["report", "--kubeconfig", str(server_without.kubeconfig)]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, PodiumError)
    assert "not served" in str(done.exception)
    assert "podium manifests crds" in str(done.exception)
