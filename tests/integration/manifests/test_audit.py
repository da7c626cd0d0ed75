"""The API server's audit log: each process uses every right of an install, and needs no other.

An API server with an audit log gets the manifests of the scheduler's mode. The three processes run under the
accounts of these and repeat the actions of their pages' tests. The requests in the log are then compared,
right by right and name by name, with the rights of the roles. The webhook comes last: no server answers at
its Service here, so groups could not be created once it is registered.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.integration.controllers import test_rights as reconciler
from tests.integration.groups.autogroups.test_servers import CRDS, FOREIGN, definition
from tests.integration.schedulerplugin.scheduling import test_process as scheduler
from tests.support.controllers.running import new_class
from tests.support.proxy import Proxy, Refuse, Where
from tests.support.rights import BINDING, NAMESPACE, RESERVING, Account, asked, make
from tests.support.servers import TREES, Server, exclusive
from tests.support.waiting import comes, until
from tests.support.webhooks.running import ending, launch
from tests.unit.manifests.test_modes import rendered
from tests.unit.manifests.test_rights import installed
from tools.devcluster.controlplane.releases import NEWEST

pytestmark = pytest.mark.server

_ACCOUNTS = ("podium-controller", "podium-scheduler", "podium-webhook")
_USER = f"system:serviceaccount:{NAMESPACE}:"
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [f"{_USER}{each}" for each in _ACCOUNTS]}, {"level": "None"}],
}
_REGISTERED = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Use(NamedTuple):
    """A right, its namespace ("cluster": all), and its object ("": any)."""

    where: str
    group: str
    resource: str
    verb: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.group}/{self.resource} {self.name or '*'} ({self.where})"

    def covers(self, other: "Use") -> bool:
        """Return whether a request, in one namespace and by name, uses this right."""
        return (
            self[1:4] == other[1:4]
            and self.where in ("cluster", other.where)
            and self.name in ("", other.name)
        )


def _granted(account: str) -> set[Use]:
    """Return the rights that the manifests grant an account, one for each name."""
    return {
        Use(grant.where, grant.group, grant.resource, grant.verb, name)
        for grant in installed(account, rendered("scheduler"))
        for name in grant.names or ("",)
    }


def _told(uses: Iterable[Use]) -> list[str]:
    return sorted({str(each) for each in uses})


class Audit(NamedTuple):
    """The audit log of a server."""

    server: Server
    log: Path

    def asked(self, account: str) -> Iterator[tuple[Use, int]]:
        """Yield an account's requests for resources, and the answers' codes."""
        for line in self.log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            reference = event.get("objectRef", {})
            if event["user"]["username"] == _USER + account and "resource" in reference:
                resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
                where, name = reference.get("namespace", "cluster"), reference.get("name", "")
                use = Use(where, reference.get("apiGroup", ""), resource, event["verb"], name)
                yield use, event["responseStatus"]["code"]
                if use[1:4] == RESERVING:
                    # The API server also asks whether the account may bind claims, of all namespaces.
                    yield Use("cluster", *BINDING, ""), event["responseStatus"]["code"]

    def unused(self, account: str) -> list[str]:
        """Return the rights of an account that it has not used."""
        uses = {use for use, _ in self.asked(account)}
        return _told(right for right in _granted(account) if not any(map(right.covers, uses)))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audit]:
    """Yield a server with an install whose processes have used all of their rights."""
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.json", folder / "audit.log"
    policy.write_text(json.dumps(_POLICY), encoding="utf-8")
    gates = f"--feature-gates={TREES}"
    arguments = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", gates)
    with exclusive(NEWEST, apiserver=arguments) as server:
        _apply(server, [each for each in rendered("scheduler") if each["kind"] not in _REGISTERED])
        for kind in FOREIGN:
            make(server, CRDS, definition(kind))
        paths = [
            scheduler.RECORDS,
            *(f"/apis/{version}/{kind.lower()}s" for kind, version in FOREIGN.items()),
        ]
        until(lambda: all(server.request("GET", path)[0] == 200 for path in paths), "all kinds are served")
        new_class(server, scheduler.LOW, 100)
        new_class(server, scheduler.HIGH, 1000)
        for name, use_each in (
            ("podium-controller", reconciler.use_each),
            ("podium-scheduler", scheduler.use_each),
            ("podium-webhook", _register),
        ):
            with Proxy(server).running() as proxy:
                own = folder / name
                own.mkdir()
                use_each(server, proxy, Account(server, NAMESPACE, name).kubeconfig(own, proxy.url), own)
        yield Audit(server, log)


def _apply(server: Server, documents: Iterable[dict[str, Any]]) -> None:
    server.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(documents))


def _register(server: Server, proxy: Proxy, kubeconfig: Path, folder: Path) -> None:
    """Run the installed webhook: first without initial lists in watches, then until it is registered."""
    _apply(server, rendered("scheduler", *_REGISTERED))
    names = f"{NAMESPACE}/podium-webhook"
    own = (f"--cert-secret={names}", f"--register-service={names}", f"--deployment={names}")
    arguments = (f"--kubeconfig={kubeconfig}", *own)
    lists = {right[1:3] for right in _granted("podium-webhook") if right.verb == "list"}
    with proxy.fault(Where(watch=True), Refuse(422, "Invalid")):
        older = launch(server, folder / "older", *arguments)
        with ending(older):
            older.until(lambda: lists <= _listed(proxy), "it lists")
    newer = launch(server, folder / "newer", *arguments)
    with ending(newer):
        newer.wait_ready()


def _listed(proxy: Proxy) -> set[tuple[str, ...]]:
    """Return the group and resource of each kind that was listed through a proxy."""
    return {right[:2] for right in asked(proxy) if right is not None and right.verb == "list"}


@pytest.mark.parametrize("account", _ACCOUNTS)
def test_every_right_is_used(account: str, audit: Audit) -> None:
    """Each right is used, so without it a request would be refused."""
    assert _granted(account)
    # The log is written after a request has ended, which its client may know earlier.
    comes(lambda: not audit.unused(account))
    assert audit.unused(account) == []


@pytest.mark.parametrize("account", _ACCOUNTS)
def test_nothing_else_is_asked_for(account: str, audit: Audit) -> None:
    """No request was refused for a missing right, or allowed by a role outside the install."""
    granted = _granted(account)
    uses = list(audit.asked(account))
    assert _told(use for use, code in uses if code == 403) == []
    assert _told(use for use, _ in uses if not any(right.covers(use) for right in granted)) == []
