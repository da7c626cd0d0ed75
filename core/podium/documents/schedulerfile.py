"""The file of the live scheduler from its ConfigMap or a dump: plans use these settings.

Only the fields that a plan depends on are kept, so a dump that has them can still be shared.
`podium.answers.schedulersettings`, which knows the whole file, validates them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from podium.documents.split import split
from podium.errors import PodiumError

# The place of the file in an installation.
CONFIG_MAP = ("v1", "ConfigMap")
NAMESPACE, NAME = "podium-system", "podium-scheduler"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"

_KIND = "SchedulerConfiguration"
_PLANNED_WITH = (
    *("apiVersion", "kind", "schedulerName", "preemption", "semantics", "divergencePolicy", "budgets"),
    *("strategy", "weights", "evict", "reservedNodes", "preemptionPriority"),
)
# Node labels are not shared under pseudonyms.
_PRIVATE = "reservedNodes"


class SchedulerFile(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a scheduler's file, and where it was found; `problem` says why there are none."""

    where: str = f"ConfigMap {NAMESPACE}/{NAME}"
    fields: dict[str, Any] = {}
    problem: str = ""

    def shared(self, rename: Callable[[str], str]) -> "SchedulerFile":
        """Return the file under pseudonyms."""
        fields = {key: value for key, value in self.fields.items() if key != _PRIVATE}
        if isinstance(name := fields.get("schedulerName"), str):
            fields["schedulerName"] = rename(name)
        return msgspec.structs.replace(self, fields=fields, problem="")


def of_config_map(value: Mapping[str, Any]) -> SchedulerFile | None:
    """Return the file in the ConfigMap of a scheduler; None for any other ConfigMap."""
    metadata, data = value.get("metadata") or {}, value.get("data") or {}
    if metadata.get("name") != NAME:
        return None
    where = f"ConfigMap {metadata.get('namespace') or 'default'}/{NAME}"
    try:
        documents = [each for text in data.values() for each in split(str(text).encode(), where)]
        for document in documents:
            if document.kind == _KIND:
                found = document.value()
                return SchedulerFile(
                    where=where, fields={key: found[key] for key in _PLANNED_WITH if key in found}
                )
    except PodiumError as error:
        return SchedulerFile(where=where, problem=str(error))
    return SchedulerFile(where=where, problem=f"no {_KIND} found")
