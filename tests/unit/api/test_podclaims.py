"""The claims of a pod, their users, and the texts of kube-scheduler for claims that cannot be used."""

from typing import Any

import msgspec
import pytest
from tests.support.preemption.clusters import NS
from tests.support.preemption.scene import group

from podium.api.core import ResourceClaimEntry
from podium.api.devices import ResourceClaim
from podium.api.groups import PodGroup
from podium.api.podclaims import entry_claims, first_refusal
from podium.api.schedulable import Schedulable

NAMED = {"name": "gpus", "resourceClaimName": "shared"}
TEMPLATED = {"name": "gpus", "resourceClaimTemplateName": "template"}
CREATED = {"name": "gpus", "resourceClaimName": "p-gpus-x"}
BY_POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}
BY_GROUP = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "name": "g",
    "uid": "g",
    "controller": True,
}


def pod(*entries: dict[str, Any], created: list[dict[str, Any]] | None = None) -> Schedulable:
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": NS, "uid": "p-uid"},
            "spec": {"resourceClaims": list(entries), "schedulingGroup": {"podGroupName": "g"}},
            "status": {"resourceClaimStatuses": created},
        },
        Schedulable,
    )


def of_group(*entries: dict[str, Any], native: bool = True) -> PodGroup:
    claims = tuple(msgspec.convert(each, ResourceClaimEntry) for each in entries)
    return group("g", native=native, claims=claims)


def claim(name: str = "p-gpus-x", owner: dict[str, Any] | None = None, **metadata: Any) -> ResourceClaim:
    owners = [owner] if owner is not None else None
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": NS, "ownerReferences": owners, **metadata}}, ResourceClaim
    )


@pytest.mark.parametrize(
    ("entry", "created", "name", "made", "unnamed"),
    [
        pytest.param(NAMED, None, "shared", False, "", id="a name"),
        pytest.param(NAMED, [CREATED], "shared", False, "", id="a name, whatever the status has"),
        pytest.param(TEMPLATED, [CREATED], "p-gpus-x", True, "", id="a template"),
        pytest.param(TEMPLATED, [{"name": "gpus"}], None, True, "", id="a template, and no claim is needed"),
        pytest.param(
            TEMPLATED,
            [{"name": "other", "resourceClaimName": "x"}],
            None,
            True,
            f'pod "{NS}/p": ResourceClaim not created yet',
            id="a template, and the status has another entry",
        ),
        pytest.param(
            TEMPLATED,
            None,
            None,
            True,
            f'pod "{NS}/p": ResourceClaim not created yet',
            id="a template, and no status",
        ),
        pytest.param(
            {"name": "gpus"},
            [CREATED],
            None,
            False,
            f'pod "{NS}/p", spec.resourceClaim "gpus": none of the supported fields are set',
            id="an unknown field of a newer API",
        ),
    ],
)
def test_an_entry_means_one_claim(
    entry: dict[str, Any], created: list[dict[str, Any]] | None, name: str | None, made: bool, unnamed: str
) -> None:
    """Source: Name in resourceclaim.go."""
    (found,) = entry_claims(pod(entry, created=created), None)
    assert (found.entry, found.name, found.created, found.unnamed) == ("gpus", name, made, unnamed)


def test_a_pod_without_entries_or_status_has_no_claims() -> None:
    assert entry_claims(Schedulable(), of_group(NAMED)) == []
    (found,) = entry_claims(msgspec.convert({"spec": {"resourceClaims": [TEMPLATED]}}, Schedulable), None)
    assert found.unnamed


@pytest.mark.parametrize(
    ("entry", "of", "shared"),
    [
        pytest.param(NAMED, of_group(NAMED), True, id="one name in both"),
        pytest.param(
            TEMPLATED, of_group(NAMED | {"name": "net"}, TEMPLATED), True, id="one template in both"
        ),
        pytest.param(NAMED, of_group(NAMED | {"name": "net"}), False, id="the entries have other names"),
        pytest.param(NAMED, of_group(NAMED | {"resourceClaimName": "x"}), False, id="the claims differ"),
        pytest.param(NAMED, of_group(TEMPLATED), False, id="a name and a template"),
        pytest.param(NAMED, of_group(), False, id="a group without claims"),
        pytest.param(NAMED, None, False, id="no group"),
        pytest.param(NAMED, of_group(NAMED, native=False), False, id="a Podium group"),
    ],
)
def test_a_claim_is_the_groups_if_the_entries_are_equal(
    entry: dict[str, Any], of: PodGroup | None, shared: bool
) -> None:
    """Source: BindTo in resourceclaim.go. Kubelets know no Podium group."""
    (found,) = entry_claims(pod(entry), of)
    assert found.shared is shared
    wanted = ("scheduling.k8s.io", "podgroups", "g", "g") if shared else ("", "pods", "p", "p-uid")
    assert msgspec.structs.astuple(found.consumer) == wanted


_NOT_CREATED = f"ResourceClaim {NS}/p-gpus-x was not created for Pod {NS}/p"


@pytest.mark.parametrize(
    ("entry", "of", "stored", "refused"),
    [
        pytest.param(NAMED, None, claim("shared"), "", id="a name, no owner"),
        pytest.param(NAMED, None, claim("shared", BY_GROUP), "", id="a name, any owner"),
        pytest.param(NAMED, None, None, f'could not find ResourceClaim "{NS}/shared"', id="a name, no claim"),
        pytest.param(TEMPLATED, None, claim(owner=BY_POD), "", id="created for the pod"),
        pytest.param(
            TEMPLATED, None, None, f'could not find ResourceClaim "{NS}/p-gpus-x"', id="created and gone"
        ),
        pytest.param(
            NAMED,
            None,
            claim("shared", deletionTimestamp="2026-01-01T00:00:00Z"),
            'resourceclaim "shared" is being deleted',
            id="a claim that is deleted",
        ),
        pytest.param(
            TEMPLATED,
            None,
            claim(deletionTimestamp="2026-01-01T00:00:00Z"),
            'resourceclaim "p-gpus-x" is being deleted',
            id="deletion comes before the owner",
        ),
        pytest.param(TEMPLATED, None, claim(), f"{_NOT_CREATED} (Pod is not owner)", id="no owner"),
        pytest.param(
            TEMPLATED,
            None,
            claim(owner=BY_POD | {"uid": "older"}),
            f"{_NOT_CREATED} (Pod is not owner)",
            id="a pod of the same name before",
        ),
        pytest.param(
            TEMPLATED,
            None,
            claim(owner=BY_POD | {"controller": False}),
            f"{_NOT_CREATED} (Pod is not owner)",
            id="an owner that is not the controller",
        ),
        pytest.param(
            TEMPLATED,
            of_group(),
            claim(owner=BY_GROUP),
            f"{_NOT_CREATED} (Pod is not owner)",
            id="a group without claims",
        ),
        pytest.param(TEMPLATED, of_group(TEMPLATED), claim(owner=BY_POD), "", id="in a group, the pod's"),
        pytest.param(TEMPLATED, of_group(TEMPLATED), claim(owner=BY_GROUP), "", id="the group's"),
        pytest.param(
            TEMPLATED,
            of_group(TEMPLATED),
            claim(owner=BY_GROUP | {"apiVersion": "scheduling.k8s.io/v1"}),
            "",
            id="the group's, of another version",
        ),
        *(
            pytest.param(
                TEMPLATED,
                of_group(TEMPLATED),
                claim(owner=BY_GROUP | other),
                f"{_NOT_CREATED} (neither Pod nor PodGroup g is the owner)",
                id=f"not the group's: {next(iter(other))}",
            )
            for other in (
                {"name": "h"},
                {"kind": "Workload"},
                {"apiVersion": "scheduling.podium.dev/v1beta1"},
            )
        ),
        pytest.param(
            TEMPLATED,
            of_group(TEMPLATED, native=False),
            claim(owner=BY_GROUP),
            f"{_NOT_CREATED} (Pod is not owner)",
            id="a Podium group owns no claims",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_is_named(
    entry: dict[str, Any], of: PodGroup | None, stored: ResourceClaim | None, refused: str
) -> None:
    """Source: foreachPodResourceClaim, IsForPod."""
    claims = {(NS, stored.metadata.name or ""): stored} if stored is not None else {}
    assert first_refusal(pod(entry, created=[CREATED]), of, claims) == refused


_SECOND = {"name": "net", "resourceClaimName": "net"}


@pytest.mark.parametrize(
    ("entries", "created", "refused"),
    [
        ((), None, ""),
        ((TEMPLATED, _SECOND), [{"name": "gpus"}], 'could not find ResourceClaim "team-a/net"'),
        ((_SECOND, TEMPLATED), None, 'could not find ResourceClaim "team-a/net"'),
        ((TEMPLATED, _SECOND), None, 'pod "team-a/p": ResourceClaim not created yet'),
    ],
    ids=["none", "an entry without claim is skipped", "the first of two", "the first, not created"],
)
def test_the_first_entry_that_is_refused_is_named(
    entries: tuple[dict[str, Any], ...], created: list[dict[str, Any]] | None, refused: str
) -> None:
    assert first_refusal(pod(*entries, created=created), None, {}) == refused.replace("team-a", NS)
