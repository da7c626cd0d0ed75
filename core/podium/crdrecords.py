"""The schema of PreemptionRecord: a few limits and no rules, because only the scheduler writes records.

The limits keep one object well below the maximum size that an API server stores, whatever the length of its
names. A truncated record is more useful than a refused record, so a writer truncates records to fit.
"""

from podium.api.records import (
    MAX_PLANS,
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    Agreement,
    Mode,
    Result,
)
from podium.crdschema import Schema, struct
from podium.rules.names import LABEL_LIMIT, SUBDOMAIN_LIMIT

# UIDs are 36 characters long.
_MAX_UID = 128
_WHOLE = {"type": "integer", "format": "int64", "minimum": 0}


def record_parts() -> dict[str, Schema]:
    """Return the schemas of a record's fields beside its header."""
    return {
        "sequence": {
            "description": "Counts the objects that were begun; the highest is being filled.",
            **_WHOLE,
        },
        "plans": {
            "description": "What was planned, oldest first.",
            "type": "array",
            "maxItems": MAX_PLANS,
            "items": _plan(),
            "x-kubernetes-list-type": "atomic",
        },
    }


def _plan() -> Schema:
    return struct(
        "A preemption, or what would have been one.",
        {
            "time": {"description": "When it was decided.", "type": "string", "format": "date-time"},
            "mode": _word("Whether it was carried out, observed, or planned for another scheduler.", Mode),
            "result": _word("What became of it.", Result),
            "message": _text("Why, for a person.", MAX_TEXT),
            "preemptor": _party("For whom room was to be made."),
            "domain": _text("The node it is for, or `cluster`.", SUBDOMAIN_LIMIT),
            "units": {
                "description": "Who was preempted; the first of them, where there are more.",
                "type": "array",
                "maxItems": MAX_UNITS,
                "items": _party("A pod, or a group as a whole."),
                "x-kubernetes-list-type": "atomic",
            },
            "unitCount": {"description": "How many units in all.", **_WHOLE},
            "podCount": {"description": "How many pods in all.", **_WHOLE},
            "accelerators": {
                "description": "What devices those pods held, by resource.",
                "type": "object",
                "maxProperties": MAX_RESOURCES,
                "additionalProperties": _WHOLE,
            },
            "violations": {"description": "How many pods against a PodDisruptionBudget.", **_WHOLE},
            "acceleratorSeconds": {"description": "The work lost, in accelerator-seconds.", **_WHOLE},
            "milliseconds": {"description": "How long it took to carry out.", **_WHOLE},
            "agreement": _word("What the other scheduler did.", Agreement),
            "theirPods": {"description": "How many pods the other scheduler preempted.", **_WHOLE},
        },
        required=["time", "mode", "result", "preemptor"],
    )


def _party(description: str) -> Schema:
    return struct(
        description,
        {
            "kind": {"description": "What it is.", "type": "string", "enum": ["Pod", "PodGroup"]},
            "namespace": _text("Its namespace.", LABEL_LIMIT),
            "name": _text("Its name.", SUBDOMAIN_LIMIT),
            "uid": _text("Its UID.", _MAX_UID),
            "priority": {"description": "The priority it counted as.", "type": "integer", "format": "int32"},
            "pods": {"description": "How many pods of it.", **_WHOLE},
            "owner": struct(
                "Its controller, which makes it anew.",
                {
                    "kind": _text("Its kind.", SUBDOMAIN_LIMIT),
                    "name": _text("Its name.", SUBDOMAIN_LIMIT),
                    "uid": _text("Its UID.", _MAX_UID),
                },
                required=["kind", "name"],
            ),
        },
        required=["kind", "namespace", "name"],
    )


def _word(description: str, words: type[Mode] | type[Result] | type[Agreement]) -> Schema:
    return {"description": description, "type": "string", "enum": [str(word) for word in words]}


def _text(description: str, limit: int) -> Schema:
    return {"description": description, "type": "string", "maxLength": limit}
