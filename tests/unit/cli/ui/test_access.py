"""Accepted and refused requests: by address, link, cookie, and a form's origin."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ui.running import ROOT

from podium.cli.commands.ui import command
from podium.cli.ui.access import HOST, LINK_SECONDS, Guard, own_host
from podium.runtime.messages import HTTPRequest

OURS = "127.0.0.1:8001"
ORIGIN = f"http://{OURS}"


def guard(port: int = 8001) -> Guard:
    return Guard(HOST, port, token="T", passing="P", session="S")


def ask(**headers: str) -> HTTPRequest:
    return HTTPRequest(
        "/", b"", 0.0, 0.0, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


@pytest.mark.parametrize(
    ("host", "served"),
    [
        (OURS, True),
        ("localhost:8001", True),
        ("LOCALHOST:8001", True),
        ("evil.example:8001", False),
        ("127.0.0.1", False),
        ("127.0.0.1:8002", False),
        ("127.0.0.1:8001.evil.example", False),
        ("", False),
    ],
)
def test_the_address_is_ours(host: str, served: bool) -> None:
    """A name that resolves to loopback is another site's."""
    assert (guard().strange(ask(Host=host), posted=False) is None) == served


def test_a_request_without_a_host_is_refused() -> None:
    assert guard().strange(ask(), posted=False) is not None


def test_the_port_of_http_is_left_out_as_browsers_do() -> None:
    assert guard(80).link == "http://127.0.0.1/?token=T"
    assert guard(80).strange(ask(Host="127.0.0.1"), posted=False) is None


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"Origin": ORIGIN}, True),
        ({"Origin": ORIGIN, "Sec_Fetch_Site": "same-origin"}, True),
        ({}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://localhost:8001"}, False),
        ({"Origin": "http://127.0.0.1:9999"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": ORIGIN, "Sec_Fetch_Site": "cross-site"}, False),
        ({"Origin": ORIGIN, "Sec_Fetch_Site": "same-site"}, False),
    ],
)
def test_a_form_comes_from_our_own_page(headers: dict[str, str], taken: bool) -> None:
    assert (guard().strange(ask(Host=OURS, **headers), posted=True) is None) == taken


@pytest.mark.parametrize(
    ("cookie", "known"),
    [
        ("podium-8001=S", True),
        ('theme={"a": "b c"}; podium-8001=S; x=y', True),
        ("podium-8001=T", False),
        ("podium-8001=", False),
        ("podium-8002=S", False),
        ("S", False),
        ("podium-8001=S\udcff", False),
        ("", False),
    ],
)
def test_a_browser_is_known_by_its_cookie(cookie: str, known: bool) -> None:
    """Other servers on loopback may have set further cookies."""
    assert (guard().known(ask(Cookie=cookie)) is None) == known


def test_the_printed_link_opens_again_and_the_browsers_once() -> None:
    """The link is visible in the list of processes, so it works once; then the answer explains it."""
    one = guard()
    assert one.enters("T") is None
    assert one.enters("T") is None
    assert one.enters("P") is None
    again = one.enters("P")
    assert again is not None
    assert "is used up" in again.why
    assert one.enters("S") is not None
    assert one.enters("") is not None


def test_the_cookie_is_for_this_browser_and_page_alone() -> None:
    assert guard().cookie == "podium-8001=S; HttpOnly; SameSite=Strict; Path=/"


def test_the_printed_link_expires_and_the_session_does_not() -> None:
    seconds = [0.0]
    one = Guard(HOST, 8001, token="T", passing="P", session="S", clock=lambda: seconds[0])
    seconds[0] = LINK_SECONDS - 1
    assert one.enters("T") is None
    seconds[0] = LINK_SECONDS
    late = one.enters("T")
    assert late is not None
    assert "expired" in late.why
    assert one.known(ask(Cookie="podium-8001=S")) is None


@given(st.binary(min_size=3, max_size=3))
def test_a_random_address_is_of_loopback_and_no_other_name_is_served(random: bytes) -> None:
    """A cookie of 127.0.0.1 would reach all servers there."""
    host = own_host(random)
    assert IPv4Address(host).is_loopback
    assert host != HOST
    one = Guard(host, 8001, token="T", passing="P", session="S")
    assert one.link == f"http://{host}:8001/?token=T"
    assert one.strange(ask(Host=f"{host}:8001"), posted=False) is None
    for other in (OURS, "localhost:8001", "127.1.1.1.example:8001", host):
        assert one.strange(ask(Host=other), posted=False) is not None


def test_help_and_documentation_say_how_long_the_link_works() -> None:
    page = (ROOT / "docs" / "ui.md").read_text("utf-8")
    assert LINK_SECONDS == 600
    assert "The printed link works for ten minutes." in " ".join((command.help or "").split())
    assert "It works for ten minutes" in page
    assert "to each browser that opens it" in page
