"""Deletions: grace periods, finalizers and preconditions."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from podium import jsontext
from podium.api.times import written
from podium.simulation.apiserver.messages import ApiRequest, Document, conflict
from podium.simulation.apiserver.resources import ResourceRow
from podium.simulation.apiserver.storage import ObjectVersion

# The finalizers by which an API server leaves dependents to the garbage collector.
_PROPAGATION = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


def delete_options(request: ApiRequest) -> Document:
    """Return the DeleteOptions of a request."""
    options: Document = jsontext.parse(request.body, dict[str, Any]) if request.body else {}
    query = request.query
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    return options


def check_preconditions(kind: str, name: str, options: Mapping[str, Any], held: ObjectVersion) -> None:
    """Raise ApiError (409) if the preconditions of DeleteOptions do not hold."""
    given, metadata = options.get("preconditions") or {}, held.document["metadata"]
    uid, version = given.get("uid"), given.get("resourceVersion")
    if uid and uid != metadata["uid"]:
        text = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind, name, text)
    if version and version != metadata["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({metadata['resourceVersion']}). The object might have been modified"
        )
        raise conflict(kind, name, text)


class Marked(NamedTuple):
    """An object whose deletion begins or continues.

    `waits`: for a kubelet, or for finalizers. A graceful deletion is stored even if nothing waits for it.
    """

    document: Document
    waits: bool
    graceful: bool = False


def marked(row: ResourceRow, document: Document, options: Document, now: datetime) -> Marked | None:
    """Return an object as a deletion marks it; None if it is being deleted already."""
    metadata = dict(document["metadata"])
    going = "deletionTimestamp" in metadata
    if row.kind == "Namespace":
        if going:
            return None
        _mark(metadata, now, 0)
        metadata.pop("deletionGracePeriodSeconds")
        status = {**document["status"], "phase": "Terminating"}
        return Marked({**document, "metadata": metadata, "status": status}, waits=True)
    grace = _grace_period(row, document, options)
    graceful = grace is not None
    if going and (left := metadata.get("deletionGracePeriodSeconds", 0)):
        if options.get("gracePeriodSeconds", left) >= left:
            return None
        grace = _shorten(metadata, now, left, options["gracePeriodSeconds"])
    elif going:
        graceful, grace = False, 0
    elif graceful:
        _mark(metadata, now, grace or 0)
    finalizers = _deletion_finalizers(metadata.get("finalizers") or [], options.get("propagationPolicy"))
    if finalizers:
        metadata["finalizers"] = finalizers
        if not going and not graceful:
            _mark(metadata, now, 0)
    else:
        metadata.pop("finalizers", None)
    return Marked({**document, "metadata": metadata}, bool(finalizers or grace), graceful)


def _shorten(metadata: Document, now: datetime, left: int, grace: int) -> int:
    """Shorten a grace period, and return it: never into the past, and to 0 only if that was asked for."""
    begun = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=left)
    end = begun + timedelta(seconds=grace)
    if end < now:
        end, grace = now, min(grace, 1)
    metadata["deletionTimestamp"] = written(end)
    metadata["deletionGracePeriodSeconds"] = grace
    return grace


def _mark(metadata: Document, now: datetime, grace: int) -> None:
    metadata["deletionTimestamp"] = written(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def _grace_period(row: ResourceRow, document: Document, options: Document) -> int | None:
    """Return the grace period of a pod in seconds; None for kinds without one."""
    if row.kind != "Pod" or row.custom:
        return None
    spec = document["spec"]
    if not spec.get("nodeName") or document["status"].get("phase") in ("Failed", "Succeeded"):
        return 0
    given = options.get("gracePeriodSeconds")
    grace = spec.get("terminationGracePeriodSeconds", 0) if given is None else given
    return int(grace) if grace >= 0 else 1


def _deletion_finalizers(present: list[str], policy: str | None) -> list[str]:
    """Return the finalizers of an object whose deletion begins, with those of the propagation policy."""
    finalizers = [name for name in present if name not in _PROPAGATION.values()]
    if policy is None:
        chosen = next((name for name in present if name in _PROPAGATION.values()), None)
    else:
        chosen = _PROPAGATION.get(policy)
    return finalizers + ([chosen] if chosen else [])
