"""The pods that are never victims, and the findings of a plan on classes."""

import pytest
from tests.support.filters.builders import pod

from podium.api.core import PriorityClass
from podium.api.meta import ObjectMeta
from podium.api.priority import TOLERATION_PREFIXES
from podium.api.schedulable import Schedulable
from podium.cluster.state import ClusterState
from podium.planner.preemption.protection import class_findings, protected
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.rules.tolerations import unreadable

GOLD = PriorityClass(metadata=ObjectMeta(name="gold"), value=100)
CLASSES = {"gold": GOLD}
OURS = Settings(evict_only="podium-scheduler")
NOTHING = ClusterState(native_served=False)


@pytest.mark.parametrize(
    ("victim", "settings", "why"),
    [
        pytest.param(pod(), Settings(), None, id="any pod"),
        pytest.param(
            pod(namespace="kube-system"),
            Settings(),
            "it is one of the cluster's own, which are never evicted",
            id="kube-system",
        ),
        pytest.param(
            pod(),
            OURS,
            "it belongs to default-scheduler, and only pods of podium-scheduler are evicted",
            id="another scheduler",
        ),
        pytest.param(pod(schedulerName="podium-scheduler"), OURS, None, id="the scheduler's own"),
        pytest.param(pod(schedulerName="other"), Settings(), None, id="any scheduler by default"),
    ],
)
def test_pods_that_are_protected(victim: Schedulable, settings: Settings, why: str | None) -> None:
    assert protected(victim, None, settings, NOTHING) == why


@pytest.mark.parametrize("semantics", [Semantics.V1_36, Semantics.V1_37, Semantics.PODS])
def test_kube_scheduler_evicts_from_kube_system(semantics: Semantics) -> None:
    """`whatif` reports what a release does; `evictOnly` still holds."""
    victim = pod(namespace="kube-system")
    assert protected(victim, None, Settings(semantics=semantics), NOTHING) is None
    assert protected(victim, None, OURS._replace(semantics=semantics), NOTHING) is not None


def test_a_class_that_does_not_exist_is_named() -> None:
    (found,) = class_findings("gone", CLASSES)
    assert (found.rule, str(found.object)) == ("class-missing", "PriorityClass gone")


def test_annotations_that_do_not_parse_are_named_as_the_audit_names_them() -> None:
    keys = [f"{prefix}toleration-seconds" for prefix in TOLERATION_PREFIXES]
    minimum = f"{TOLERATION_PREFIXES[1]}minimum-preemptable-priority"
    odd = PriorityClass(metadata=ObjectMeta(name="odd", annotations={keys[0]: "soon", minimum: "high"}))
    found = list(class_findings("odd", {"odd": odd}))
    assert [each.field for each in found] == [f"metadata.annotations[{key}]" for key in (minimum, keys[0])]
    assert found == list(unreadable(odd))


@pytest.mark.parametrize("name", ["gold", "system-cluster-critical"])
def test_a_valid_class_gives_no_finding(name: str) -> None:
    assert not list(class_findings(name, CLASSES))
