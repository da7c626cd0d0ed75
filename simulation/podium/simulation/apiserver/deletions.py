"""Deletions: grace periods, finalizers and preconditions."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

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


def marked(
    row: ResourceRow, document: Document, options: Document, now: datetime
) -> tuple[Document, bool] | None:
    """Return an object that a deletion has marked, and whether it waits; None if nothing changes."""
    metadata = dict(document["metadata"])
    finalizers = _deletion_finalizers(metadata.get("finalizers") or [], options.get("propagationPolicy"))
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    grace = grace_period(row, document, options)
    going = "deletionTimestamp" in metadata
    if row.kind == "Namespace":
        if going:
            return None
        _mark(metadata, now, 0)
        metadata.pop("deletionGracePeriodSeconds")
        return {
            **document,
            "metadata": metadata,
            "status": {**document["status"], "phase": "Terminating"},
        }, True
    if going:
        if grace is None:
            return {**document, "metadata": metadata}, bool(finalizers)
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if options.get("gracePeriodSeconds") is None or options["gracePeriodSeconds"] >= left:
            return None
        grace = max(options["gracePeriodSeconds"], 0)
        begun = datetime.fromisoformat(metadata["deletionTimestamp"]) - timedelta(seconds=left)
        metadata["deletionTimestamp"] = written(begun + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        return {**document, "metadata": metadata}, bool(finalizers) or grace > 0
    if grace is not None or finalizers:
        _mark(metadata, now, grace or 0)
    return {**document, "metadata": metadata}, bool(finalizers or grace)


def _mark(metadata: Document, now: datetime, grace: int) -> None:
    metadata["deletionTimestamp"] = written(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def grace_period(row: ResourceRow, document: Document, options: Document) -> int | None:
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
