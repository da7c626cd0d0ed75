"""The first item of a dump: the server, the part of the cluster that was read, and what the dump lacks."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from podium.documents.split import split
from podium.errors import PodiumError

# The file of the live scheduler from its ConfigMap or a dump: plans use these settings.
#
# Only the fields that a plan depends on are kept, so a dump that has them can still be shared.
# `podium.answers.schedulersettings`, which knows the whole file, validates them.

# The place of the file in an installation.
CONFIG_MAP = ("v1", "ConfigMap")
NAMESPACE, NAME = "podium-system", "podium-scheduler"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"

_KIND = "SchedulerConfiguration"
_PLANNED_WITH = (
    *("apiVersion", "kind", "schedulerName", "preemption", "semantics", "divergencePolicy", "budgets"),
    *("strategy", "weights", "evict", "reservedNodes", "preemptionPriority", "plugins"),
    *("podStartSeconds", "noticeSeconds"),
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
        if isinstance(plugins := fields.get("plugins"), list):
            fields["plugins"] = [rename(str(plugin)) for plugin in plugins]
        return msgspec.structs.replace(self, fields=fields, problem="")


def of_config_map(value: Mapping[str, Any]) -> SchedulerFile | None:
    """Return the file in the ConfigMap of a scheduler; None for any other ConfigMap."""
    metadata, data = value.get("metadata") or {}, value.get("data") or {}
    if metadata.get("name") != NAME:
        return None
    where = f"ConfigMap {metadata.get('namespace') or 'default'}/{NAME}"
    try:
        documents = [document for text in data.values() for document in split(str(text).encode(), where)]
        for document in documents:
            if document.kind == _KIND:
                file = document.value()
                return SchedulerFile(
                    where=where, fields={key: file[key] for key in _PLANNED_WITH if key in file}
                )
    except PodiumError as error:
        return SchedulerFile(where=where, problem=str(error))
    return SchedulerFile(where=where, problem=f"no {_KIND} found")


CLUSTER_INFO = ("cli.podium.dev/v1", "ClusterInfo")


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The data on a cluster beside its objects: the first item in the output of `podium dump`.

    `server` is the API server's version (`v1.37.0`). `unread` says why a kind is not in the dump, and
    `scheduling` that its objects have the fields of SCHEDULING_READS. `storage` says so of STORAGE_KINDS:
    older dumps have two of them, with fewer fields. `devices` says that the cluster was asked for
    DEVICE_KINDS, which older dumps lack. Of the labels of pods and namespaces only those with keys
    in `labels` are present; None means all of them, and none under pseudonyms. `scheduler` is the file of
    Podium's scheduler.
    """

    apiVersion: str = CLUSTER_INFO[0]
    kind: str = CLUSTER_INFO[1]
    server: str = ""
    namespace: str = ""
    selector: str = ""
    unread: dict[str, str] = {}
    scheduling: bool = False
    storage: bool = False
    devices: bool = False
    labels: list[str] | None = None
    scheduler: SchedulerFile | None = None
