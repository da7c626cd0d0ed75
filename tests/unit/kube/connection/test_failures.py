"""A failed connection is one line that names the part to check: certificate, address, network."""

import errno
import os
import re
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.connection.fake import Fake, serving
from tests.support.webhooks import pki

from podium.errors import PodiumError
from podium.kube.connection import connect, no_connection
from podium.kube.discovery import discover
from podium.webhooks.certificates import Pair

# Whether the kubeconfig trusts the signer, the name, the hours from now; the message.
CERTIFICATES = {
    "expired": (True, "127.0.0.1", (-2, -1), "certificate has expired. Renew it, or set the clock"),
    "not valid yet": (
        True,
        "127.0.0.1",
        (1, 2),
        # Newer versions of OpenSSL continue: "or the system clock is incorrect".
        r"certificate is not yet valid[a-z ]*\. Renew it, or set the clock",
    ),
    "of another name": (
        True,
        "example.com",
        (-1, 1),
        "certificate is not valid for '127.0.0.1'. Set server or tls-server-name in the kubeconfig to",
    ),
    "of another authority": (
        False,
        "127.0.0.1",
        (-1, 1),
        "Set certificate-authority in the kubeconfig to the CA that signed it",
    ),
}


def serving_context(folder: Path, leaf: Pair, authority: Pair) -> ssl.SSLContext:
    """Return a server's context with a leaf; write the CA that clients trust to ca.crt."""
    pki.write(folder, leaf)
    (folder / "ca.crt").write_bytes(authority.certificate)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


async def failure(fake: Fake, folder: Path, method: str, authority: str = "") -> str:
    """Return the error of a read or a write, which is one line."""
    async with connect(fake.kubeconfig(folder, authority=authority), None) as link:
        with pytest.raises(PodiumError) as failed:
            await (link.get("/version") if method == "GET" else link.send(method, "/version", {}))
    line = str(failed.value)
    assert line.startswith(f"{fake.url}: {method} /version failed: ")
    assert not re.search(r"\n|_ssl\.c|Errno|ssl:|Connect", line)
    return line


@pytest.mark.parametrize("method", ["GET", "PATCH"])
@pytest.mark.parametrize("case", CERTIFICATES.values(), ids=list(CERTIFICATES))
async def test_a_certificate_that_is_refused(
    tmp_path: Path, case: tuple[bool, str, tuple[int, int], str], method: str
) -> None:
    trusted, name, hours, words = case
    authority = pki.authority()
    start, end = (hour * pki.HOUR for hour in hours)
    leaf = pki.leaf(authority, (name,), start=start, end=end)
    context = serving_context(tmp_path, leaf, authority if trusted else pki.authority())
    async with serving(Fake(), context) as fake:
        line = await failure(fake, tmp_path, method, str(tmp_path / "ca.crt"))
    assert "server certificate refused: " in line
    assert re.search(words, line)


async def test_a_ca_without_key_usage_is_accepted(tmp_path: Path) -> None:
    """Verification is kubectl's; Python 3.13 and newer are stricter by default."""
    authority = pki.sparse()
    context = serving_context(tmp_path, pki.sparse(issuer=authority), authority)
    async with serving(Fake(), context) as fake:
        kubeconfig = fake.kubeconfig(tmp_path, authority=str(tmp_path / "ca.crt"))
        async with connect(kubeconfig, None) as link:
            assert await link.get("/api/v1/pods")


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_server_without_tls(tmp_path: Path, method: str) -> None:
    async with serving(Fake()) as fake:
        fake.url = fake.url.replace("http:", "https:")
        assert "the port does not serve TLS. Check scheme and port" in await failure(fake, tmp_path, method)


CHECK = "Check that the cluster runs and that the kubeconfig's server is right"


@pytest.mark.parametrize("method", ["GET", "PATCH"])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", f"connection refused. {CHECK}"),
        ("https://podium.invalid", "host name not resolved ("),
    ],
)
async def test_a_server_that_is_not_there(tmp_path: Path, url: str, words: str, method: str) -> None:
    fake = Fake()
    fake.url = url
    assert words in await failure(fake, tmp_path, method)


def tls(reason: str | None) -> ssl.SSLError:
    """Make an error of a handshake with OpenSSL's reason."""
    error = ssl.SSLError(1, "handshake failed")
    error.reason = reason  # type: ignore[assignment]  # absent if the connection ended
    return error


def refused(code: int) -> ssl.SSLCertVerificationError:
    """Make the error of a refused certificate."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "unsuitable purpose."
    return error


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "TLS alert from the server (tlsv13 alert certificate req"),
        (tls("NO_SHARED_CIPHER"), "TLS failed: no shared cipher"),
        (tls(None), "TLS failed: no reason given"),
        (refused(26), "server certificate refused: unsuitable purpose. Check certificate-authority in the"),
        (
            OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)),
            "No route to host. Check the kubeconfig's",
        ),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1)"), "connection refused"),
        (OSError(errno.EMFILE, "Too many open files"), None),
        (ValueError("a space"), None),
    ],
)
def test_connection_errors_have_messages(cause: Exception, words: str | None) -> None:
    """Known causes have a message; others have the library's own text."""
    error = OSError("cannot connect")
    error.__context__ = cause
    message = no_connection(error, "https://a:1")
    assert message == words or (message and words and message.startswith(words))


async def test_a_redirect_elsewhere_is_told(tmp_path: Path) -> None:
    """A proxy that requires a login is not the API server."""

    async def away(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("https://login.invalid/")

    async with serving(Fake()) as fake:
        fake.answers["/version"] = away
        assert "redirected to login.invalid, and host name not resolved" in await failure(
            fake, tmp_path, "GET"
        )


async def test_a_server_of_something_else_is_no_cluster(tmp_path: Path) -> None:
    """A server that answers every request with an empty object gives an error, not a report."""

    async def nothing(_: web.Request) -> web.StreamResponse:
        return web.json_response({})

    async with serving(Fake()) as fake:
        fake.answers["/version"] = nothing
        async with connect(fake.kubeconfig(tmp_path), None) as link:
            with pytest.raises(PodiumError, match="GET /version: no version returned; is this a "):
                await discover(link)
