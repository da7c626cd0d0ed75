"""An install grants the rights listed in docs/; other tests show that they are enough, and each is used."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from tests.integration.webhooks.test_rights import _listed
from tests.support.rights import NAMESPACE, Page, rights
from tests.unit.manifests.test_modes import rendered

_ALL = [each for each in rendered("scheduler") if each["apiVersion"].startswith("rbac.")]


class Grant(NamedTuple):
    """A right, its scope, and its objects."""

    where: str
    group: str
    resource: str
    verb: str
    names: tuple[str, ...]


def _grants(where: str, rules: Iterable[Mapping[str, Any]]) -> Iterator[Grant]:
    for rule in rules:
        for right in rights([rule]):
            yield Grant(where, *right, tuple(sorted(rule.get("resourceNames", ()))))


def installed(account: str, documents: list[dict[str, Any]]) -> list[Grant]:
    """Return the rights that the bindings in some documents grant an account."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    roles = {(each["kind"], each["metadata"]["name"]): each for each in documents if "rules" in each}
    found: list[Grant] = []
    for each in documents:
        if subject in each.get("subjects", ()):
            assert each["subjects"] == [subject]
            role = roles[each["roleRef"]["kind"], each["roleRef"]["name"]]
            found += _grants(each["metadata"].get("namespace", "cluster"), role["rules"])
    return found


@pytest.mark.parametrize(
    "page",
    [
        Page("reconciler-reference.md", "podium-controller"),
        Page("scheduler-reference.md", "podium-scheduler"),
    ],
)
def test_an_account_has_the_rights_of_its_page(page: Page) -> None:
    """The rights of controller and scheduler, by verb, resource, names and scope."""
    listed = installed(page.account_name, page.documents())
    assert listed
    assert sorted(installed(page.account_name, _ALL)) == sorted(listed)


def test_the_webhooks_account_has_the_rights_of_its_page() -> None:
    """The page has the union of its rights in the base and with certificates of its own."""
    listed = [grant for where, rule in _listed() for grant in _grants(where, [rule])]
    assert listed
    assert sorted(installed("podium-webhook", _ALL)) == sorted(listed)


def test_nothing_is_granted_to_others_and_nothing_wholesale() -> None:
    """Three accounts; no `*`; aggregated rules cover Podium's kinds alone."""
    for document in _ALL:
        accounts = {each["name"] for each in document.get("subjects", ())}
        assert accounts <= {"podium-webhook", "podium-controller", "podium-scheduler"}
        for right in rights(document.get("rules", ())):
            assert "*" not in right
            if document["metadata"]["name"] in ("podium-view", "podium-edit"):
                assert right.group == "scheduling.podium.dev"
