"""Two audit reports of one cluster under different names."""

from typing import Any

AUDIT_SCHEMA = {"apiVersion", "kind", "summary", "findings", "groups"}


def anonymous(report: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a report that do not depend on names: rules, places, numbers, sizes."""
    summary = report["summary"]
    return {
        "findings": sorted(
            (
                found["rule"],
                found["severity"],
                found["object"]["apiVersion"],
                found["object"]["kind"],
                found["field"],
            )
            for found in report["findings"]
        ),
        "groups": sorted(
            (
                group["apiVersion"],
                group["source"],
                group["priority"],
                group["members"],
                sorted(each["priority"] for each in group["divergent"]),
            )
            for group in report["groups"]
        ),
        "numbers": {
            name: summary[name]
            for name in (
                "kubernetes",
                "chosenBy",
                "errors",
                "warnings",
                "infos",
                "objects",
                "skipped",
                "notChecked",
                "blocked",
            )
        },
        "namespaces": sorted(str(share["blocked"]) for share in summary["blockedByNamespace"]),
        "priorities": [(share["priority"], share["pods"]) for share in summary["priorities"]],
    }
