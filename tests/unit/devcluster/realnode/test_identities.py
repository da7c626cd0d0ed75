"""The certificates of a cluster: a strict verifier accepts them, for the names of the servers."""

import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tools.devcluster.controlplane import credentials
from tools.devcluster.controlplane.components import AUTHORITY, SERVER_CERTIFICATE, ClusterSettings
from tools.devcluster.realnode import identities

_NOW = datetime.now(UTC)
_SETTINGS = ClusterSettings(
    name="a",
    kubernetes="1.37",
    workload_api=True,
    controllers=True,
    ports={"kube-apiserver": 4321},
    real_nodes=2,
)


@pytest.mark.parametrize(
    "name",
    ["kubernetes.default.svc", "localhost", "127.0.0.1", "10.96.0.1", "172.31.255.1"],
)
def test_a_client_that_checks_strictly_accepts_the_server(name: str) -> None:
    """The handshake is done in memory, with the strict check that Python 3.13 has by default."""
    ca = identities.authority(_NOW)
    server = identities.apiserver(ca, _NOW)
    assert _handshake(server, ca, name)


def test_a_client_of_another_ca_refuses_the_server() -> None:
    ca, other = identities.authority(_NOW), identities.authority(_NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(identities.apiserver(ca, _NOW), other, "localhost")


def test_kubelets_take_the_api_server_for_an_administrator() -> None:
    ca = identities.authority(_NOW)
    subject = identities.apiserver_client(ca, _NOW).certificate.subject
    (group,) = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert group.value == "system:masters"


def test_the_credentials_of_a_cluster_are_private_and_complete(tmp_path: Path) -> None:
    identities.write(tmp_path, 2)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    chain = (tmp_path / SERVER_CERTIFICATE).read_text(encoding="ascii")
    assert credentials.last_certificate(chain) == (tmp_path / AUTHORITY).read_text(encoding="ascii")
    node = identities.node_files(tmp_path, _SETTINGS, 1)
    token = credentials.tokens(tmp_path)["kubelet-node-1"]
    assert token in node["etc/podium/kubelet.kubeconfig"]
    assert "https://172.31.255.1:4321" in node["etc/podium/kube-proxy.kubeconfig"]
    certificate = x509.load_pem_x509_certificate(node["etc/podium/kubelet.crt"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1"]
    line = next(each for each in (tmp_path / "tokens.csv").read_text().splitlines() if token in each)
    assert line.split(",")[1:] == ["system:node:node-1", "kubelet-node-1", "system:nodes"]


def _handshake(server: identities.Issued, ca: identities.Issued, name: str) -> bool:
    client_context = ssl.create_default_context(cadata=ca.pem())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(server_context, server)
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    (client_in, client_out), (server_in, server_out) = ends
    client = client_context.wrap_bio(client_in, client_out, server_hostname=name)
    serving = server_context.wrap_bio(server_in, server_out, server_side=True)
    done = [False, False]
    for _ in range(10):
        for at, end in enumerate((client, serving)):
            try:
                end.do_handshake()
                done[at] = True
            except ssl.SSLWantReadError:
                pass
        server_in.write(client_out.read())
        client_in.write(server_out.read())
    return all(done)


def _load(context: ssl.SSLContext, server: identities.Issued) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(server.pem() + server.key_pem())
        file.flush()
        context.load_cert_chain(file.name)
