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

# The heading at which the generated part of docs/admission-rules.md begins.
HEADING = "## The rules"


def markdown() -> str:
    """Return the last part of docs/admission-rules.md; a test keeps the page equal to it."""
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
            for rule in (*podiumrules.OWN_RULES, *podiumrules.CLASS_RULES)
        ),
        "",
        "### The API server's",
        "",
        "| Rule | Refuses | Why | Source |",
        "|---|---|---|---|",
        *(
            f"| {rule.id} | {rule.title} | {rule.why} | {rule.source} |"
            for rule in ADMISSION_RULES
            if rule not in podiumrules.RULES
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201 - the entry point that writes the page's last part
