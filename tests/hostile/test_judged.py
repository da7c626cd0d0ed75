"""A rule applies to an object of any shape: an object that is hard to read is not let through."""

from collections.abc import Callable

import pytest
from tests.support.hostile import tenant
from tests.support.hostile.attacked import AttackedCluster
from tests.support.hostile.rows import sizes
from tests.support.hostile.tenant import PODS, Tenant

from podium.api.groups import GROUP_LABEL

pytestmark = pytest.mark.server

# Creates a member of a group of some shape, and returns its name.
SHAPES: dict[str, Callable[[Tenant, str], str]] = {
    "small": lambda tenant, group: tenant.pod(group=group),
    "a review of 8 MB": lambda tenant, group: tenant.pod(sizes.env(sizes.ESCAPED * 650_000), group=group),
    "the largest review": lambda tenant, group: tenant.pod(sizes.env(sizes.ESCAPED * 1_200_000), group=group),
    "JSON of 400 levels": lambda tenant, group: sizes.managed(tenant, 400, group),
    "JSON of 4,000 levels": lambda tenant, group: sizes.managed(tenant, 4_000, group),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_group_label_of_a_pod_stays(attacked: AttackedCluster, shape: str) -> None:
    """The API server refuses a change of the member, by the webhook or by a policy."""
    with attacked.tenant(f"judged-{list(SHAPES).index(shape)}") as somebody:
        try:
            name = SHAPES[shape](somebody, somebody.group(2))
            change = {"metadata": {"labels": {GROUP_LABEL: "another"}}}
            answer = somebody.tried("PATCH", f"{PODS}/{name}", change)
            assert answer.code in (403, 422), answer.body[:500]
        finally:
            tenant.clear(attacked.server, somebody.collections)
