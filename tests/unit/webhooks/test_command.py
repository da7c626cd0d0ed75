"""`podium webhook` on the command line: its usage errors, and the errors that keep it from starting."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from podium.cli.commands.webhook import command
from podium.errors import PodiumError

USAGE = {
    "no certificates": ([], "Give exactly one of --cert-dir, --cert-secret and --provided-cert-dir."),
    "two places for certificates": (
        ["--cert-dir", "c", "--cert-secret", "a/b"],
        "Give exactly one of --cert-dir",
    ),
    "a Secret without its namespace": (["--cert-secret", "ab"], "ab is not of the form NAMESPACE/NAME"),
    "a name with two slashes": (["--cert-secret", "a/b/c"], "a/b/c is not of the form NAMESPACE/NAME"),
    "an unknown family": (["--on-failure", "x=Fail"], "KIND is one of podium, gangs, pods, native"),
    "an unknown failure policy": (["--on-failure", "pods=Maybe"], "KIND=Fail or KIND=Ignore"),
    "registered twice": (
        ["--cert-dir", "c", "--register-url", "https://a", "--register-service", "a/b"],
        "--register-url and --register-service exclude each other",
    ),
    "registered with a certificate of others": (
        ["--provided-cert-dir", "c", "--register-url", "https://a"],
        "excludes --register-url",
    ),
    "a failure policy without a webhook": (
        ["--cert-dir", "c", "--on-failure", "pods=Fail"],
        "--on-failure needs --register-url or --register-service",
    ),
    "a Deployment without a webhook": (
        ["--cert-dir", "c", "--register-url", "https://a", "--deployment", "a/b"],
        "--deployment needs --register-service",
    ),
    "a URL without TLS": (
        ["--register-url", "http://a"],
        "http://a is not a URL of the form https://HOST[:PORT][/PATH]",
    ),
    "a URL with a query": (["--register-url", "https://a?b=c"], "is not a URL of the form https://HOST"),
    "a port that is none": (["--port", "70000"], "70000 is not in the range"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_usage(arguments: list[str], message: str) -> None:
    """Exit code 2 and one line with the remedy, before anything is started."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """Return a kubeconfig of an API server that gets no request."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "
        "'https://127.0.0.1:1'}}], contexts: [{name: a, context: {cluster: a, user: a}}], "
        "users: [{name: a, user: {token: x}}]}"
    )
    return str(path)


def begin(*arguments: str) -> str:
    """Run it to the error that keeps it from starting."""
    result = CliRunner().invoke(command, ["--port", "0", "--metrics-port", "0", *arguments])
    assert isinstance(result.exception, PodiumError), result.output
    return str(result.exception)


def test_no_kubeconfig(tmp_path: Path) -> None:
    """The error names the file."""
    missing = str(tmp_path / "none")
    output = begin("--cert-dir", str(tmp_path), "--kubeconfig", missing)
    assert output.startswith(f"{missing}: kubeconfig not found")


def test_port_in_use(tmp_path: Path, kubeconfig: str) -> None:
    """The error names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        output = begin("--cert-dir", str(tmp_path), "--kubeconfig", kubeconfig, "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in output


def test_no_provided_certificate(tmp_path: Path, kubeconfig: str) -> None:
    """The error names the missing file."""
    output = begin("--provided-cert-dir", str(tmp_path), "--kubeconfig", kubeconfig)
    assert f"{tmp_path}/tls.crt" in output


def test_replicas_that_could_not_reach_each_other(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.0.0.0 a replica would probe its own certificate, and drop the CA that another still needs."""
    monkeypatch.delenv("POD_IP", raising=False)
    output = begin("--cert-secret", "a/b", "--bind", "0.0.0.0", "--kubeconfig", kubeconfig)
    assert output.startswith("--bind 0.0.0.0: replicas that share a Secret must reach each other. Set")


def test_a_folder_that_cannot_be_written(tmp_path: Path, kubeconfig: str) -> None:
    """The error names the folder; the process stopped listening soon."""
    file = tmp_path / "file"
    file.touch()
    output = begin("--cert-dir", str(file), "--kubeconfig", kubeconfig)
    assert str(file) in output


def test_no_policy_file(tmp_path: Path, kubeconfig: str) -> None:
    """The error names the file."""
    missing = str(tmp_path / "policy.yaml")
    output = begin("--cert-dir", str(tmp_path), "--kubeconfig", kubeconfig, "--config", missing)
    assert missing in output
