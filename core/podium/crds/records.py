"""The schema of PreemptionRecord: a few limits and no rules, because only the scheduler writes records.

The limits keep one object well below the maximum size that an API server stores, whatever the length of its
names. A truncated record is more useful than a refused record, so a writer truncates records to fit.
"""

from podium.api.records import (
    MAX_PLANS,
    MAX_RESOURCES,
    MAX_TEXT,
    MAX_UNITS,
    PlanMode,
    Result,
    Saving,
)
from podium.crds.schema import Schema, struct
from podium.rules.names import LABEL_LIMIT, SUBDOMAIN_LIMIT

# UIDs are 36 characters long.
_MAX_UID = 128
_WHOLE = {"type": "integer", "format": "int64", "minimum": 0}


def record_parts() -> dict[str, Schema]:
    """Return the schemas of a record's fields beside its header."""
    return {
        "sequence": {
            "description": "Number of the object; the object with the highest number is being filled.",
            **_WHOLE,
        },
        "plans": {
            "description": "Plans, oldest first.",
            "type": "array",
            "maxItems": MAX_PLANS,
            "items": _plan_schema(),
            "x-kubernetes-list-type": "atomic",
        },
    }


def _plan_schema() -> Schema:
    return struct(
        "A preemption, carried out or planned.",
        {
            "time": {"description": "Time of the decision.", "type": "string", "format": "date-time"},
            "mode": _word("Whether it was carried out or observed.", PlanMode),
            "result": _word("Result of the plan.", Result),
            "message": _text_schema("Human-readable reason.", MAX_TEXT),
            "preemptor": _party("The preemptor."),
            "domain": _text_schema("The node of the plan, or `cluster`.", SUBDOMAIN_LIMIT),
            "units": {
                "description": "The preempted units; only the first, if there are more.",
                "type": "array",
                "maxItems": MAX_UNITS,
                "items": _party("A pod, or a group as a whole."),
                "x-kubernetes-list-type": "atomic",
            },
            "unitCount": {"description": "Total number of units.", **_WHOLE},
            "podCount": {"description": "Total number of pods.", **_WHOLE},
            "accelerators": {
                "description": "Devices that those pods held, by resource or driver.",
                "type": "object",
                "maxProperties": MAX_RESOURCES,
                "additionalProperties": _WHOLE,
            },
            "violations": {"description": "Number of pods in violation of a PodDisruptionBudget.", **_WHOLE},
            "acceleratorSeconds": {"description": "The work lost, in accelerator-seconds.", **_WHOLE},
            "acceleratorSecondsSaved": {
                "description": "The work that is not lost because workloads save it, in accelerator-seconds.",
                **_WHOLE,
            },
            "milliseconds": {"description": "Duration of the execution.", **_WHOLE},
            "askedPods": {"description": "Number of pods that were asked to save their work.", **_WHOLE},
            "savedPods": {"description": "Number of those that saved it in time.", **_WHOLE},
            "waitedMilliseconds": {"description": "Duration of the wait for those pods.", **_WHOLE},
        },
        required=["time", "mode", "result", "preemptor"],
    )


def _party(description: str) -> Schema:
    return struct(
        description,
        {
            "kind": {
                "description": "Its kind.",
                "type": "string",
                "enum": ["Pod", "PodGroup", "CompositePodGroup"],
            },
            "namespace": _text_schema("Its namespace.", LABEL_LIMIT),
            "name": _text_schema("Its name.", SUBDOMAIN_LIMIT),
            "uid": _text_schema("Its UID.", _MAX_UID),
            "priority": {"description": "The priority it counted as.", "type": "integer", "format": "int32"},
            "pods": {"description": "Number of its pods.", **_WHOLE},
            "owner": struct(
                "Its controller, which recreates it.",
                {
                    "kind": _text_schema("Its kind.", SUBDOMAIN_LIMIT),
                    "name": _text_schema("Its name.", SUBDOMAIN_LIMIT),
                    "uid": _text_schema("Its UID.", _MAX_UID),
                },
                required=["kind", "name"],
            ),
            "saving": _word("Whether a victim that was asked to save its work did so in time.", Saving),
        },
        required=["kind", "namespace", "name"],
    )


def _word(description: str, words: type[PlanMode] | type[Result] | type[Saving]) -> Schema:
    return {"description": description, "type": "string", "enum": [str(word) for word in words]}


def _text_schema(description: str, limit: int) -> Schema:
    return {"description": description, "type": "string", "maxLength": limit}
