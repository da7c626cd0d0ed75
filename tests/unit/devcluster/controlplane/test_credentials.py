"""The secrets of a cluster are private, random, and in the forms that the components read."""

import stat
from pathlib import Path

import yaml
from tools.devcluster.controlplane import credentials
from tools.devcluster.controlplane.components import SERVICE_ACCOUNT_KEY, TOKENS


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    credentials.write(tmp_path)
    for name in (TOKENS, SERVICE_ACCOUNT_KEY):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_every_identity_has_a_token_of_its_own(tmp_path: Path) -> None:
    """No component has another's rights; only the administrator and kwok are in system:masters."""
    credentials.write(tmp_path)
    tokens = credentials.tokens(tmp_path)
    assert set(tokens) == {"admin", "kube-controller-manager", "kube-scheduler", "kwok"}
    assert len(set(tokens.values())) == 4
    assert min(map(len, tokens.values())) >= 43  # 32 random octets in base64
    lines = (tmp_path / TOKENS).read_text().splitlines()
    assert [line.split(",")[2] for line in lines if "system:masters" in line] == ["admin", "kwok"]


def test_a_rewritten_file_is_private_even_if_the_old_one_was_not(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old", encoding="ascii")
    path.chmod(0o644)
    credentials.write_private(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["kubeconfig"]


def test_a_kubeconfig_is_complete_in_one_file() -> None:
    text = credentials.kubeconfig(
        cluster="dev", user="admin", url="https://127.0.0.1:1", token="t", authority="CA"
    )
    config = yaml.safe_load(text)
    assert config["current-context"] == config["contexts"][0]["name"] == "podium-dev"
    assert config["contexts"][0]["context"] == {"cluster": "podium-dev", "user": "admin"}
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"] == [{"name": "admin", "user": {"token": "t"}}]


def test_the_authority_is_the_last_of_a_chain() -> None:
    def one(body: str) -> str:
        return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"

    assert credentials.last_certificate(one("server") + one("authority")) == one("authority")
    assert credentials.last_certificate(one("alone")) == one("alone")
