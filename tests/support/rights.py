"""The rights that a page of docs/ lists, and accounts that have them, or all but some.

A page has one YAML block of RBAC for one service account. A process under such an account, observed through a
proxy that records its requests, shows that its rights are enough and that each is used.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import yaml
from tests.support.proxy import Call, Proxy
from tests.support.servers import Server

_DOCS = Path(__file__).parents[2] / "docs"
NAMESPACE = "podium-system"
_BLOCK = re.compile(r"```yaml\n(apiVersion: rbac\.authorization\.k8s\.io/v1\n.*?)```", re.DOTALL)
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NUMBERS = itertools.count()
# Paths that every account may read.
_ANYBODY = re.compile(r"/version|/readyz|/apis(/[^/]+/[^/]+)?|/api/v1")
_RESOURCE = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/[^/]+(?=/))?/(?P<kind>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)


class Right(NamedTuple):
    """A verb on a resource; the resource is `podgroups/status` for a subresource."""

    group: str
    resource: str
    verb: str


RESERVING = Right("resource.k8s.io", "resourceclaims/status", "patch")
BINDING = Right("resource.k8s.io", "resourceclaims/binding", "patch")


def rights(rules: Iterable[Mapping[str, Any]]) -> Iterator[Right]:
    """Yield the single rights of some rules."""
    for rule in rules:
        for names in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            yield Right(*names)


def used(call: Call) -> Right | None:
    """Return the right that a request needs; None for requests that every account may send."""
    if _ANYBODY.fullmatch(call.path):
        return None
    found = _RESOURCE.fullmatch(unquote(call.path))
    assert found is not None, call.path
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    reading = "get" if found["name"] else "watch" if call.watch else "list"
    resource = f"{found['kind']}/{found['sub']}" if found["sub"] else found["kind"]
    return Right(found["group"] or "", resource, verbs.get(call.method, reading))


def asked(proxy: Proxy) -> set[Right | None]:
    """Return the rights that requests through a proxy have used."""
    found = {used(call) for call in list(proxy.calls)}
    # The API server asks for this right too, by a resource that it does not serve.
    return found | {BINDING} if RESERVING in found else found


def make(server: Server, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Create an object."""
    code, answer = server.request("POST", path, body)
    assert code == 201, answer
    assert isinstance(answer, dict)
    return answer


class Account(NamedTuple):
    """A service account of some name in its namespace."""

    server: Server
    namespace: str
    name: str

    def kubeconfig(self, folder: Path, url: str = "") -> Path:
        """Write a kubeconfig of the account, with `url` if one is given."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        code, answer = self.server.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        assert code == 201, answer
        text = self.server.kubeconfig.read_text(encoding="utf-8")
        config = yaml.safe_load(text.replace(self.server.url, url or self.server.url))
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        config["contexts"][0]["context"]["namespace"] = self.namespace
        made = folder / f"{self.namespace}.kubeconfig"
        made.write_text(json.dumps(config), encoding="utf-8")
        return made


class Page(NamedTuple):
    """A page by its file's name, and the service account that its rights are for."""

    file: str
    account_name: str

    def documents(self) -> list[dict[str, Any]]:
        """Return the manifests of the page."""
        (block,) = _BLOCK.findall((_DOCS / self.file).read_text(encoding="utf-8"))
        return list(yaml.safe_load_all(block))

    def listed(self) -> set[Right]:
        """Return the rights that the page lists; none is listed twice."""
        found = [each for document in self.documents() for each in rights(document.get("rules", ()))]
        assert len(found) == len(set(found))
        return set(found)

    def account(self, server: Server, without: Iterable[Right] = ()) -> Account:
        """Create the account of the page and its roles; with rights left out, in another namespace."""
        without = set(without)
        namespace = f"{NAMESPACE}-{next(_NUMBERS)}" if without else NAMESPACE
        name = self.account_name
        make(server, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        make(server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        for document in self.documents():
            kind = document["kind"]
            everywhere = kind.startswith("Cluster")
            metadata = {"name": namespace if everywhere else name}
            made = {**document, "metadata": metadata}
            if "rules" in document:
                made["rules"] = [
                    {
                        "apiGroups": [each.group],
                        "resources": [each.resource],
                        "verbs": [each.verb],
                        **_names(rule),
                    }
                    for rule in document["rules"]
                    for each in rights([rule])
                    if each not in without
                ]
            else:
                made["roleRef"] = {**document["roleRef"], "name": metadata["name"]}
                made["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
            where = "" if everywhere else f"/namespaces/{namespace}"
            make(server, f"{_RBAC}{where}/{kind.lower()}s", made)
        return Account(server, namespace, name)


def _names(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {"resourceNames": rule["resourceNames"]} if "resourceNames" in rule else {}
