"""Every fault of a kubeconfig gives one line that names it."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection.fake import Fake, serving

from podium.cli.kubeoptions import KubeOptions
from podium.cli.live import load_live
from podium.errors import PodiumError
from podium.kube.kubeconfig import chosen, namespace

HTTPS = "https://127.0.0.1:1"
EXEC = "client.authentication.k8s.io/v1"


def _config(
    server: str = "http://127.0.0.1:1",
    user: dict[str, Any] | None = None,
    cluster: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
    }


def _refusal(kubeconfig: str | None = None, context: str | None = None) -> str:
    with pytest.raises(PodiumError) as refused:
        load_live(KubeOptions(kubeconfig=kubeconfig, context=context))
    message = str(refused.value)
    assert "\n" not in message
    return message


NO_CERTIFICATE = {"certificate-authority-data": base64.b64encode(b"x").decode()}


def _plugin(command: str, *args: str) -> dict[str, Any]:
    """Return a user whose credential comes from a command."""
    return {"exec": {"apiVersion": EXEC, "command": command, "args": list(args)}}


BROKEN: dict[str, tuple[str | dict[str, Any], str]] = {
    "malformed YAML": ("a: [", "cannot be used as a kubeconfig: "),
    "no mapping": ("hello", "cannot be used as a kubeconfig: malformed"),
    "empty": ("", "cannot be used as a kubeconfig: malformed"),
    "nothing in it": ("{}", "cannot be used as a kubeconfig: "),
    "an unknown current context": (_config() | {"current-context": "x"}, "Expected object with name x"),
    "no current context": (_config() | {"current-context": ""}, "Expected object with name"),
    "an unknown cluster": (_config() | {"clusters": []}, "Expected object with name c"),
    "a certificate that is none": (_config(HTTPS, cluster=NO_CERTIFICATE), "context c: certificates: "),
    "a certificate file that does not exist": (
        _config(HTTPS, cluster={"certificate-authority": "nowhere"}),
        "nowhere",
    ),
    "a credential plugin that does not exist": (_config(user=_plugin("nowhere")), "nowhere"),
    "a credential plugin that fails at length": (
        _config(user=_plugin("sh", "-c", "echo log in; echo first; exit 7")),
        "exec: process returned 7",
    ),
    "a server that is no address": (_config("127.0.0.1:1"), "127.0.0.1:1: not a URL. "),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str | dict[str, Any], message: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert message in _refusal(kubeconfig=str(path))


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is that of the flag, of the environment, or the default."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    path = str(tmp_path / "a")
    assert _refusal(path) == f"{path}: kubeconfig not found. Name another with --kubeconfig"
    monkeypatch.setenv("KUBECONFIG", f"{path}:{path}2")
    assert _refusal().startswith(f"{path}:{path}2: kubeconfig not found")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _refusal().startswith("~/.kube/config: kubeconfig not found")


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(_config()))
    assert _refusal(str(path), context="other") == f"{path}: context other not found; the contexts are: c"


def test_in_a_pod_without_a_service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a kubeconfig the pod's own account is used, if it has one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    assert (
        _refusal() == "no kubeconfig found, and the pod's service account is not usable: "
        "Service token file does not exist."
    )


def _contexts(**namespaces: str) -> dict[str, Any]:
    """Write a kubeconfig with contexts in namespaces, the first the current one, and a login that fails."""
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "me", **({"namespace": value} if value else {})}}
        for name, value in namespaces.items()
    ]
    return _config(user=_plugin("nowhere")) | {"contexts": contexts, "current-context": contexts[0]["name"]}


NAMESPACES: dict[str, tuple[list[dict[str, Any]], str | None, str]] = {
    "the current context's": ([_contexts(one="a", two="b")], None, "a"),
    "another context's": ([_contexts(one="a", two="b")], "two", "b"),
    "a context without one": ([_contexts(one="")], None, "default"),
    "the first of several files": ([_contexts(one="a"), _contexts(two="b")], None, "a"),
}


@pytest.mark.parametrize(("files", "context", "expected"), NAMESPACES.values(), ids=list(NAMESPACES))
def test_the_namespace_is_known_without_a_login(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: list[dict[str, Any]],
    context: str | None,
    expected: str,
) -> None:
    """The connection uses that context, once the login works."""
    paths = [tmp_path / str(number) for number in range(len(files))]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    for path, content in zip(paths, files, strict=True):
        path.write_text(json.dumps(content))
    assert namespace(None, context) == expected
    for path, content in zip(paths, files, strict=True):
        path.write_text(json.dumps(content | {"users": []}))
    assert asyncio.run(chosen(None, context)).namespace == expected


def test_the_namespace_of_what_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad kubeconfig has the same message; in a pod the service account is the faulty part."""
    path = tmp_path / "kubeconfig"
    path.write_text("hello")
    with pytest.raises(PodiumError) as refused:
        namespace(str(path), None)
    assert str(refused.value) == _refusal(str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    with pytest.raises(
        PodiumError, match="no kubeconfig found, and the pod's service account is not usable: "
    ):
        namespace(None, None)


async def test_the_environment_names_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are merged as in kubectl; the first current-context counts."""
    async with serving(Fake()) as fake:
        fake.kubeconfig(tmp_path)
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'kubeconfig'}")
        loaded = await asyncio.to_thread(load_live, KubeOptions(all_namespaces=True))
    assert loaded.server == "v1.37.0"


async def test_a_context_without_credentials_is_anonymous(tmp_path: Path) -> None:
    """The request is sent without credentials, and the server decides."""
    async with serving(Fake()) as fake:
        (tmp_path / "k").write_text(json.dumps(_config(fake.url)))
        with pytest.raises(PodiumError, match="401 Unauthorized"):
            await asyncio.to_thread(load_live, KubeOptions(kubeconfig=str(tmp_path / "k")))


async def test_a_credential_plugin_gives_the_token(tmp_path: Path) -> None:
    credential = {"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": "secret"}}
    plugin = _plugin("echo", json.dumps(credential))
    async with serving(Fake()) as fake:
        (tmp_path / "k").write_text(json.dumps(_config(fake.url, user=plugin)))
        loaded = await asyncio.to_thread(load_live, KubeOptions(kubeconfig=str(tmp_path / "k")))
    assert loaded.server == "v1.37.0"


async def test_the_first_current_context_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is kubectl's: a later file's current-context never selects another cluster."""
    async with serving(Fake()) as fake:
        fake.kubeconfig(tmp_path)
        other = tmp_path / "other"
        other.write_text(json.dumps(_config() | {"current-context": "elsewhere"}))
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'kubeconfig'}:{other}")
        loaded = await asyncio.to_thread(load_live, KubeOptions(all_namespaces=True))
    assert loaded.server == "v1.37.0"
