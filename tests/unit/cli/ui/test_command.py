"""`podium ui` from its arguments to its link, and to its end."""

import socket
import sys
import urllib.request
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.calling import Podium, calling
from tests.support.shell import run
from tests.support.ui.running import ROOT, TRAINING, serving
from tests.support.waiting import until


@pytest.fixture
def podium(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Podium:
    """Call `podium ui` in an empty folder."""
    return calling("ui", monkeypatch, tmp_path)


def test_it_prints_one_link_and_ends_with_the_interrupt() -> None:
    """The link opens a session; no other address of the machine listens on the port."""
    with serving("-f", TRAINING) as link:
        assert ip_address(str(urlsplit(link).hostname)).is_loopback
        if sys.platform == "linux":
            assert urlsplit(link).hostname != "127.0.0.1"
        with urllib.request.urlopen(link) as answer:
            assert answer.status == 200
            assert answer.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Path=/")


def test_each_start_has_secrets_of_its_own() -> None:
    with serving("-f", TRAINING) as one, serving("-f", TRAINING) as two:
        assert one.partition("token=")[2] != two.partition("token=")[2]
        assert len(one.partition("token=")[2]) >= 40


def test_a_browser_is_started_by_a_link_that_opens_once(tmp_path: Path) -> None:
    """The given token is not in the link: all users of the machine can read a program's arguments."""
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/opened\n', "utf-8"
    )
    browser.chmod(0o755)
    with serving("-f", TRAINING, "--open", BROWSER=f"{browser} %s") as link:
        until((tmp_path / "opened").exists, "the browser is started")
        opened = (tmp_path / "opened").read_text("utf-8").strip()
        assert opened.partition("?")[0] == link.partition("?")[0]
        assert opened != link
        with urllib.request.urlopen(opened) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("-f", "nothing.yaml"), 1, "nothing.yaml: read failed"),
        (("-f", "x.yaml", "--as", "a"), 2, "excludes the flags of a live cluster"),
        (("-f", "-", "-f", "-"), 2, "is given twice"),
        (("--port", "70000"), 2, "is not in the range"),
        (("--kubeconfig", "nothing"), 1, "nothing"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], code: int, says: str, podium: Podium) -> None:
    done = podium(*arguments)
    assert done.code == code, done.stderr
    assert says in done.stderr
    assert done.stdout == ""


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(f"podium ui -f {TRAINING} --port {port}", ROOT)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
