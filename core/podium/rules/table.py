"""All rules of admission, each id once: for documentation and configuration."""

from podium.rules import (
    admission,
    clientchecks,
    compositegroup,
    conditions,
    context,
    grouppriority,
    groupspec,
    metadata,
    pod,
    podgroup,
    podiumrules,
    priorityclass,
    storage,
    workload,
)
from podium.rules.rule import Rule

ADMISSION_RULES: tuple[Rule, ...] = (
    *admission.RULES,
    *context.RULES,
    *metadata.RULES,
    *priorityclass.RULES,
    *pod.RULES,
    *groupspec.RULES,
    *grouppriority.RULES,
    *podgroup.RULES,
    *compositegroup.RULES,
    *conditions.RULES,
    *workload.RULES,
    *storage.RULES,
    *clientchecks.RULES,
    *podiumrules.RULES,
)
