"""The administrator's settings for placing and preemption: values, with the design's defaults.

The command line, the configuration file of the scheduler and tests all create one of these; the engine reads
nothing else.
"""

from enum import StrEnum
from typing import NamedTuple

from podium.schedulerplugin.preemption.outcome import Semantics
from podium.schedulerplugin.scores import Strategy, Weights


class Budgets(StrEnum):
    """Whether preemption may violate a PodDisruptionBudget when nothing else helps."""

    BEST_EFFORT = "best-effort"
    STRICT = "strict"


class DivergencePolicy(StrEnum):
    """The treatment of a group whose pods have another priority than the group."""

    USE_GROUP_PRIORITY = "UseGroupPriority"
    NO_PREEMPTION = "NoPreemption"
    HOLD = "Hold"


# Under `kep`. Keeping a whole node free is worth 200 points of the sum of scores. That is more than cpu and
# memory together can offset (150), and as much as a preferred node affinity.
WEIGHTS = Weights(accelerators=4)


class Settings(NamedTuple):
    """The settings of a plan.

    `weights` count under `kep`; kube-scheduler's releases have their own. `evict_only` limits victims to pods
    of one schedulerName (None: of any). `preemption_priority` lets an annotation on a Podium group raise the
    priority at which it may be preempted. `reserved` is a label of nodes, `key` or `key=value`: if it is set,
    only those nodes are used. `spares_system` says that no pod in kube-system is a victim, whatever the
    preemptor.
    """

    semantics: Semantics = Semantics.KEP
    budgets: Budgets = Budgets.BEST_EFFORT
    divergence: DivergencePolicy = DivergencePolicy.USE_GROUP_PRIORITY
    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: Weights = WEIGHTS
    evict_only: str | None = None
    preemption_priority: bool = False
    reserved: str = ""
    spares_system: bool = False
