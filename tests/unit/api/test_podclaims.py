"""The claims of a pod, their users, and the texts of kube-scheduler for claims that cannot be used."""

from typing import Any, NamedTuple

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


_ABSENT = "could not find ResourceClaim"
_NOT_CREATED = f"ResourceClaim {NS}/p-gpus-x was not created for Pod {NS}/p"
_NOT_ITS_POD = f"{_NOT_CREATED} (Pod is not owner)"
_NEITHER = f"{_NOT_CREATED} (neither Pod nor PodGroup g is the owner)"
_GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Use(NamedTuple):
    """An entry of a pod with the claim that is stored for it, and the error; `of` is the pod's group."""

    entry: dict[str, Any]
    stored: ResourceClaim | None
    refused: str = ""
    of: PodGroup | None = None


IN_GROUP = of_group(TEMPLATED)
USES = {
    "a name, no owner": Use(NAMED, claim("shared")),
    "a name, any owner": Use(NAMED, claim("shared", BY_GROUP)),
    "a name, no claim": Use(NAMED, None, f'{_ABSENT} "{NS}/shared"'),
    "created for the pod": Use(TEMPLATED, claim(owner=BY_POD)),
    "created and gone": Use(TEMPLATED, None, f'{_ABSENT} "{NS}/p-gpus-x"'),
    "a claim that is deleted": Use(
        NAMED, claim("shared", **_GOING), 'resourceclaim "shared" is being deleted'
    ),
    "deletion comes before the owner": Use(
        TEMPLATED, claim(**_GOING), 'resourceclaim "p-gpus-x" is being deleted'
    ),
    "no owner": Use(TEMPLATED, claim(), _NOT_ITS_POD),
    "a pod of the same name before": Use(TEMPLATED, claim(owner=BY_POD | {"uid": "older"}), _NOT_ITS_POD),
    "an owner that is not the controller": Use(
        TEMPLATED, claim(owner=BY_POD | {"controller": False}), _NOT_ITS_POD
    ),
    "a group without claims": Use(TEMPLATED, claim(owner=BY_GROUP), _NOT_ITS_POD, of_group()),
    "in a group, the pod's": Use(TEMPLATED, claim(owner=BY_POD), of=IN_GROUP),
    "the group's": Use(TEMPLATED, claim(owner=BY_GROUP), of=IN_GROUP),
    "the group's, of another version": Use(
        TEMPLATED, claim(owner=BY_GROUP | {"apiVersion": "scheduling.k8s.io/v1"}), of=IN_GROUP
    ),
    **{
        f"not the group's: {field}": Use(
            TEMPLATED, claim(owner=BY_GROUP | {field: other}), _NEITHER, IN_GROUP
        )
        for field, other in (
            *(("name", "h"), ("kind", "Workload"), ("apiVersion", "scheduling.podium.dev/v1beta1")),
        )
    },
    "a Podium group owns no claims": Use(
        TEMPLATED, claim(owner=BY_GROUP), _NOT_ITS_POD, of_group(TEMPLATED, native=False)
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_claim_that_cannot_be_used_is_named(use: Use) -> None:
    """Source: foreachPodResourceClaim, IsForPod."""
    claims = {(NS, use.stored.metadata.name or ""): use.stored} if use.stored is not None else {}
    assert first_refusal(pod(use.entry, created=[CREATED]), use.of, claims) == use.refused


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
