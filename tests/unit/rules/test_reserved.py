"""The toleration of reserved nodes: which new pods get it, by the webhook and by `admit`."""

from typing import Any

import pytest
from tests.support.rules.scene import Document, cluster, pod, profile
from tests.support.webhooks.reviews import applied, mutate

from podium.api.groups import RESERVED
from podium.rules.admission import review
from podium.rules.context import Operation, Profile, Request
from podium.rules.podiumchecks import TOLERATION
from podium.rules.policy import Policy

PODIUM = profile(rules="podium")
FREE = profile(rules="podium", policy=Policy(reserved_nodes=False))
OURS = "podium-scheduler"
OTHER: Document = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
LASTING: Document = {"key": "node", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}


def _pod(**spec: Any) -> Document:
    return pod(**{"schedulerName": OURS, **spec})


CASES: dict[str, tuple[Document, list[Document] | None]] = {
    "no tolerations": (_pod(), [TOLERATION]),
    "null tolerations": (_pod(tolerations=None), [TOLERATION]),
    "no tolerations in a list": (_pod(tolerations=[]), [TOLERATION]),
    "others, which stay as they are": (_pod(tolerations=[OTHER, LASTING]), [OTHER, LASTING, TOLERATION]),
    "one value of the taint only": (
        _pod(tolerations=[TOLERATION | {"operator": "Equal", "value": "yes"}]),
        [TOLERATION | {"operator": "Equal", "value": "yes"}, TOLERATION],
    ),
    "another effect only": (
        _pod(tolerations=[TOLERATION | {"effect": "NoExecute"}]),
        [TOLERATION | {"effect": "NoExecute"}, TOLERATION],
    ),
    "the same": (_pod(tolerations=[TOLERATION]), None),
    "any effect": (_pod(tolerations=[{"key": RESERVED, "operator": "Exists"}]), None),
    "any taint": (_pod(tolerations=[{"operator": "Exists"}]), None),
    "another scheduler's": (_pod(schedulerName="default-scheduler"), None),
    "empty scheduler name": (_pod(schedulerName=""), None),
    "what is no list": (_pod(tolerations="x"), None),
}


def _admitted(document: Document, by: Profile) -> Document:
    """Return the object of `podium admit`, which must equal the patched one."""
    verdict = review(Request(operation=Operation.CREATE, object=document), cluster(), by)
    assert verdict.admitted is not None, verdict
    assert applied(document, verdict.patch)["spec"].get("tolerations") == verdict.admitted["spec"].get(
        "tolerations"
    )
    return verdict.admitted


@pytest.mark.parametrize(("document", "want"), CASES.values(), ids=CASES)
def test_a_new_pod_gets_it_once(document: Document, want: list[Document] | None) -> None:
    """Both give the same; a second call on the result adds nothing."""
    before = document["spec"].get("tolerations")
    answer = mutate(document, by=PODIUM)
    assert answer.patched["spec"].get("tolerations") == (want or before)
    assert not mutate(answer.patched, by=PODIUM).verdict.patch
    assert _admitted(document, PODIUM)["spec"].get("tolerations") == (want or before)


@pytest.mark.parametrize(("document", "_want"), CASES.values(), ids=CASES)
def test_without_reserved_nodes_nothing_is_added(document: Document, _want: list[Document] | None) -> None:
    """The API server's own rules add nothing either."""
    before = document["spec"].get("tolerations")
    assert mutate(document, by=FREE).patched["spec"].get("tolerations") == before
    for by in (FREE, profile(rules="upstream")):
        assert _admitted(document, by)["spec"].get("tolerations") == before


def test_a_pod_that_is_changed_keeps_what_it_has() -> None:
    """A pod that was created before stays unchanged."""
    old = _pod()
    assert not mutate(old, old, by=PODIUM).verdict.patch
