"""A replica of the webhook: `python -m tests.support.faults.replica WANTED`, with `Wanted` as JSON.

It is the process of `podium webhook` with shorter waits. On request it has a rule with a bug.
"""

import contextlib
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import uvloop

from podium.rules.webhook import review_phase
from podium.runtime import logs
from podium.webhooks import handlers, process
from podium.webhooks.registration import Endpoint, Options
from podium.webhooks.rotation import Periods

# The bug raises an exception for an object with this in its name.
BUG = "bug"


class Wanted(msgspec.Struct, kw_only=True):
    """The settings of a replica; its certificates are in `folder`, or in the Secret without a folder."""

    kubeconfig: str
    port: int
    url: str
    folder: str = ""
    secret: tuple[str, str] = ("", "")
    failure: Mapping[str, str] = {}
    bug: bool = False


def settings(wanted: Wanted) -> process.WebhookSettings:
    """Return the settings of the process."""
    return process.WebhookSettings(
        certificates=process.Folder(Path(wanted.folder)) if wanted.folder else process.Secret(*wanted.secret),
        kubeconfig=wanted.kubeconfig,
        port=wanted.port,
        register=Endpoint(url=wanted.url),
        options=Options(failure=wanted.failure),
        # Twenty times the delay until the balancer sees that the replica leaves; a Service needs longer.
        drain_seconds=2.0,
        periods=Periods(grace=timedelta(seconds=3), poll=timedelta(seconds=0.3)),
    )


def broken(phase: Any, request: Any, view: Any, profile: Any) -> Any:
    """Review as always, except for the bug."""
    if BUG in request.object["metadata"]["name"]:
        raise ZeroDivisionError("a bug in a rule")
    return review_phase(phase, request, view, profile)


def main(wanted: Wanted) -> None:
    """Run a replica until it is stopped."""
    with mock.patch.object(handlers, "review_phase", broken) if wanted.bug else contextlib.nullcontext():
        uvloop.run(process.run(settings(wanted), logs.configure("json", "info")))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Wanted))
