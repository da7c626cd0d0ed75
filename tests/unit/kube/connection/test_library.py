"""The library for kubeconfig files is imported without its classes for objects, and is whole when wanted."""

import subprocess
import sys
from pathlib import Path

import pytest

_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me, namespace: team}}]
clusters: [{name: here, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: secret}}]
"""
_USED = """
import asyncio, sys
from podium.kube import kubeconfig
async def used():
    target = await kubeconfig.chosen("kubeconfig", None)
    return target, await kubeconfig.transport(target)
target, transport = asyncio.run(used())
assert (target.namespace, kubeconfig.namespace("kubeconfig", None)) == ("team", "team")
assert transport.certificates.check_hostname
"""
# The class of the configuration is the same one before and after.
_WHOLE = """
import kubernetes_asyncio as library
from kubernetes_asyncio.client import ApiClient, CoreV1Api, Configuration
assert isinstance(target.configuration, Configuration)
assert CoreV1Api.list_namespaced_pod and ApiClient.call_api
assert library.watch.Watch and library.client.models.V1Pod is library.client.V1Pod
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "assert 'kubernetes_asyncio.client.models' not in sys.modules"),
        ("", _WHOLE),
        ("", "from kubernetes_asyncio.client import models\nassert models.V1Pod().metadata is None"),
        ("", "import kubernetes_asyncio\nassert not hasattr(kubernetes_asyncio, 'nothing')"),
        ("import kubernetes_asyncio", "assert 'kubernetes_asyncio.client.models' in sys.modules"),
    ],
    ids=["used", "wanted", "a submodule", "an absent name", "imported before"],
)
def test_only_the_wanted_part_is_imported(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "kubeconfig").write_text(_KUBECONFIG, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", f"{before}\n{_USED}\n{after}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
