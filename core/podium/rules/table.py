"""Every rule there is, admission's and the audit's, each id once: for documentation and configuration."""

from podium.rules import (
    admission,
    case,
    groupspec,
    metadata,
    own,
    pod,
    podgroup,
    priorityclass,
    storage,
    workload,
)
from podium.rules.audit.table import RULES as AUDIT_RULES
from podium.rules.rule import Rule

# In the order in which a request meets them.
ADMISSION_RULES: tuple[Rule, ...] = (
    *admission.RULES,
    *case.RULES,
    *metadata.RULES,
    *priorityclass.RULES,
    *pod.RULES,
    *groupspec.RULES,
    *podgroup.RULES,
    *workload.RULES,
    *storage.RULES,
    *own.RULES,
)
RULES: tuple[Rule, ...] = (*ADMISSION_RULES, *AUDIT_RULES)
BY_ID = {rule.id: rule for rule in RULES}
