"""The first item of a dump: the server, the part of the cluster that was read, and what the dump lacks."""

import msgspec

from podium.documents.schedulerfile import SchedulerFile

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
