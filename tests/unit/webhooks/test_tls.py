"""Serving over real handshakes: swapped and kept certificates, and the accepted clients."""

import asyncio
import contextlib
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.support.webhooks import pki
from tests.unit.webhooks.test_certificates import BAD, Bad

from podium.errors import PodiumError
from podium.webhooks import certificates, tls
from podium.webhooks.certificates import Pair
from podium.webhooks.tls import Serving

CA = pki.authority()
BOTH_VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def _fingerprint(pair: Pair) -> str:
    return certificates.facts(pair.certificate).fingerprint


def _serving() -> tuple[Serving, Pair]:
    serving, pair = Serving(pki.NAMES), pki.leaf(CA)
    assert serving.load(pair, pki.now())
    return serving, pair


@pytest.mark.parametrize("name", pki.NAMES)
@pytest.mark.parametrize("version", BOTH_VERSIONS)
async def test_a_new_pair_serves_new_connections_and_old_ones_stay(
    name: str, version: ssl.TLSVersion
) -> None:
    """Certificates are swapped by name and by address (which sends no SNI), for TLS 1.2 and 1.3."""
    serving, first = _serving()
    trust = pki.client(CA.certificate, version=version)
    async with pki.listening(serving) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
        assert await pki.ask(port, trust, name=name) == ("welcome", _fingerprint(first))
        # An RSA pair between two ECDSA ones: OpenSSL keeps one of each in a context, and would serve both.
        for pair in (pki.rsa_leaf(CA), pki.leaf(CA)):
            assert serving.load(pair, pki.now())
            assert await pki.ask(port, trust, name=name) == ("welcome", _fingerprint(pair))
            assert serving.fingerprint == _fingerprint(pair)
        writer.write(b"still there?\n")
        assert await reader.readline() == b"welcome\n"
        writer.transport.abort()


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_bad_pair_leaves_the_good_one_in_use(bad: Bad) -> None:
    serving, good = _serving()
    async with pki.listening(serving) as port:
        with pytest.raises(PodiumError):
            serving.load(bad.pair, pki.now())
        assert await pki.ask(port, pki.client(CA.certificate)) == ("welcome", _fingerprint(good))
    assert serving.fingerprint == _fingerprint(good)
    assert serving.expiry == certificates.facts(good.certificate).end


def test_the_same_pair_again_is_no_change() -> None:
    serving, pair = _serving()
    context = serving.context
    assert not serving.load(Pair(bytes(pair.certificate), bytes(pair.key)), pki.now())
    assert serving.context is context


def test_before_the_first_pair_there_is_no_expiry() -> None:
    serving = Serving(pki.NAMES)
    assert serving.expiry is None
    assert serving.fingerprint is None


async def test_before_the_first_pair_a_handshake_fails_and_afterwards_it_does_not() -> None:
    serving = Serving(pki.NAMES)
    async with pki.listening(serving) as port:
        with pytest.raises(OSError):  # noqa: PT011 - reset or alert, by the kernel
            await pki.ask(port, pki.client(CA.certificate))
        serving.load(pki.leaf(CA), pki.now())
        assert (await pki.ask(port, pki.client(CA.certificate)))[0] == "welcome"


async def test_old_protocols_are_refused_and_only_http_1_1_is_negotiated() -> None:
    serving, _ = _serving()
    context = pki.client(CA.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with pki.listening(serving) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=pki.NAME)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.transport.abort()
    assert serving.context.minimum_version is ssl.TLSVersion.TLSv1_2


class _Clients:
    """A CA for clients, one of its clients, and a server that requests their certificates."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.ca = pki.authority()
        self.file = folder / "client-ca.crt"
        self.file.write_bytes(self.ca.certificate)
        self.pair = folder / "client"
        self.pair.mkdir()
        pki.write(self.pair, pki.rsa_leaf(self.ca, use=ExtendedKeyUsageOID.CLIENT_AUTH))
        self.serving = Serving(pki.NAMES, client_ca=self.file, client_name=name)
        self.serving.load(pki.leaf(CA), pki.now())


@pytest.mark.parametrize("version", BOTH_VERSIONS)
async def test_with_a_client_ca_only_its_clients_are_welcome(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """Another CA's certificate ends the handshake; a client without one may request conversions only."""
    clients = _Clients(tmp_path)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    pki.write(stranger, pki.rsa_leaf(pki.authority(), use=ExtendedKeyUsageOID.CLIENT_AUTH))
    async with pki.listening(clients.serving) as port:
        for pair, want in ((clients.pair, "welcome"), (stranger, ""), (None, "refused")):
            answer = ""
            with contextlib.suppress(OSError):
                answer, _ = await pki.ask(port, pki.client(CA.certificate, pair, version=version))
            assert answer == want


@pytest.mark.parametrize(
    "name, want",
    [("api-server", "welcome"), (pki.NAME, "welcome"), ("api", "refused"), ("podium-webhook", "refused")],
)
async def test_a_client_name_is_its_common_name_or_a_dns_name(tmp_path: Path, name: str, want: str) -> None:
    clients = _Clients(tmp_path, name)
    async with pki.listening(clients.serving) as port:
        answer, _ = await pki.ask(port, pki.client(CA.certificate, clients.pair))
    assert answer == want


async def test_a_new_client_ca_is_used_from_the_next_handshake_on(tmp_path: Path) -> None:
    """Clients of the former CA are then refused; a pair that is loaded later keeps the new one."""
    clients = _Clients(tmp_path)
    old = tmp_path / "old"
    shutil.copytree(clients.pair, old)
    other = pki.authority()
    pki.write(clients.pair, pki.rsa_leaf(other, use=ExtendedKeyUsageOID.CLIENT_AUTH))
    async with pki.listening(clients.serving) as port:
        assert not clients.serving.refresh_clients()
        clients.file.write_bytes(other.certificate)
        assert clients.serving.refresh_clients()
        clients.serving.load(pki.leaf(CA), pki.now())
        assert (await pki.ask(port, pki.client(CA.certificate, clients.pair)))[0] == "welcome"
        answer = ""
        with contextlib.suppress(OSError):
            answer, _ = await pki.ask(port, pki.client(CA.certificate, old))
        assert answer == ""


@pytest.mark.parametrize("content", [b"", b"garbage", "käse".encode(), None])
async def test_a_bad_client_ca_leaves_the_good_one_in_use(tmp_path: Path, content: bytes | None) -> None:
    clients = _Clients(tmp_path)
    clients.file.unlink()
    if content is not None:
        clients.file.write_bytes(content)
    with pytest.raises(PodiumError, match=r"client-ca\.crt: "):
        clients.serving.refresh_clients()
    async with pki.listening(clients.serving) as port:
        assert (await pki.ask(port, pki.client(CA.certificate, clients.pair)))[0] == "welcome"


def test_a_client_ca_must_be_readable_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="No such file"):
        Serving(pki.NAMES, client_ca=tmp_path / "missing")


def test_a_client_name_needs_a_ca() -> None:
    with pytest.raises(PodiumError, match="client CA"):
        Serving(pki.NAMES, client_name="api-server")


async def test_a_listener_is_proven_by_a_ca_and_a_name(tmp_path: Path) -> None:
    """Another CA, another name or no listener fails; a listener that requires a client certificate passes."""
    serving, _ = _serving()
    async with pki.listening(serving) as port:
        address = ("127.0.0.1", port)
        assert await tls.serves(address, CA.certificate, pki.NAME)
        assert await tls.serves(address, pki.authority().certificate + CA.certificate, "127.0.0.1")
        assert not await tls.serves(address, pki.authority().certificate, pki.NAME)
        assert not await tls.serves(address, CA.certificate, "other.example")
    assert not await tls.serves(address, CA.certificate, pki.NAME)
    async with pki.listening(_Clients(tmp_path).serving) as port:
        assert await tls.serves(("127.0.0.1", port), CA.certificate, pki.NAME)
