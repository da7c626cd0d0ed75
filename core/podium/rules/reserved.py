"""The toleration of reserved nodes, which admission writes into new pods of Podium's scheduler.

The scheduler places its pods on reserved nodes whether they tolerate the taint or not. Other programs read
only the pod. Cluster Autoscaler and Karpenter add no node whose taint a pending pod does not tolerate.
RemovePodsViolatingNodeTaints of the descheduler evicts a running pod. Therefore the pod needs the toleration.
"""

from typing import Any

from podium.api.core import PODIUM_SCHEDULER
from podium.api.groups import RESERVED
from podium.rules.context import Operation, RuleContext
from podium.rules.podiumrule import AdmissionPhase, WriteTarget
from podium.rules.schema import Document

TARGETS = (WriteTarget("Pod", Operation.CREATE, AdmissionPhase.MUTATE),)
TOLERATION = {"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"}


def tolerate(context: RuleContext, new: Document) -> None:
    """Add the toleration to a new pod of Podium's scheduler, unless it tolerates the taint already.

    Does nothing if the policy reserves no nodes, and for pods of other schedulers.
    """
    if not context.profile.policy.reserved_nodes or new["spec"].get("schedulerName") != PODIUM_SCHEDULER:
        return
    tolerations = new["spec"].get("tolerations") or []
    # The API server has already refused a value that is not a list of objects.
    if isinstance(tolerations, list) and not any(_covers(toleration) for toleration in tolerations):
        context.append(new, "tolerations", dict(TOLERATION))


def _covers(toleration: Any) -> bool:
    """Return whether a toleration covers the taint with any value."""
    return (
        isinstance(toleration, dict)
        and toleration.get("operator") == "Exists"
        and toleration.get("key") in (None, "", RESERVED)
        and toleration.get("effect") in (None, "", "NoSchedule")
    )
