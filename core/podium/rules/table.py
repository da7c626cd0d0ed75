"""All rules of admission and the audit, each id once: for documentation and configuration."""

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

# The heading at which the generated part of docs/admission.md begins.
HEADING = "## The rules"


def markdown() -> str:
    """Return the last part of docs/admission.md; a test keeps the page equal to it."""
    lines = [
        HEADING,
        "",
        "Made from the rule table by `python -m podium.rules.table`; edit the rules, not this part. Numbers",
        "such as G7 name a row of the list that upstream's behaviour was collected in; tests have them too.",
        "",
        "### Podium's own",
        "",
        "| Rule | Finds | Native kinds | Podium's kinds |",
        "|---|---|---|---|",
        *(
            f"| {rule.cause.rule.id} | {rule.cause.rule.title} | {rule.native} | {rule.podium} |"
            for rule in (*own.OWN_RULES, *own.CLASS_RULES)
        ),
        "",
        "### The API server's",
        "",
        "| Rule | Refuses | Why | Source |",
        "|---|---|---|---|",
        *(
            f"| {rule.id} | {rule.title} | {rule.why} | {rule.source} |"
            for rule in ADMISSION_RULES
            if rule not in own.RULES
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201 - the entry point that writes the page's last part
