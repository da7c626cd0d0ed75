"""Lists and watches: selectors, pages at one revision, and streaming lists."""

import base64
from typing import Any

import msgspec

from podium import jsontext
from podium.api.selectors import parse_selector
from podium.simulation.apiserver.messages import ApiError, ApiResponse, Document, bad_request, expired
from podium.simulation.apiserver.routing import Target
from podium.simulation.apiserver.storage import ObjectStore, Selection, Watch, served_as

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def read(store: ObjectStore, target: Target) -> ApiResponse | Watch:
    """Return the answer to a get or a list, or the watch. Raises ApiError."""
    row, query = target.row, target.request.query
    if target.name:
        held = store.existing(target.row, target.place)
        return ApiResponse(200, served_as(row, target.version, held.body))
    labels = query.get("labelSelector", "")
    try:
        selection = Selection(
            target.namespace, parse_selector(labels), _fields(query.get("fieldSelector", ""))
        )
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    given = query.get("resourceVersion", "")
    if not given.isdecimal() and given:
        raise bad_request(
            f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
        )
    if query.get("watch") in ("1", "true"):
        return _watch(store, target, selection, int(given or 0))
    return _list(store, target, selection, int(given or 0))


def _watch(store: ObjectStore, target: Target, selection: Selection, revision: int) -> Watch:
    initial = target.request.query.get("sendInitialEvents") == "true"
    since = None if initial or not revision else revision
    return Watch(store, target.row, target.version, selection, since=since, initial=initial)


def _list(store: ObjectStore, target: Target, selection: Selection, wanted: int) -> ApiResponse:
    row, query = target.row, target.request.query
    if wanted > store.revision:
        text = f"Too large resource version: {wanted}, current: {store.revision}"
        raise ApiError(504, "Timeout", f"Timeout: {text}", retry_seconds=1)
    revision, start = store.revision, ""
    if token := query.get("continue"):
        revision, start = _position(token)
    elif query.get("resourceVersionMatch") == "Exact":
        revision = wanted
    held = store.resources[row.resource]
    if revision < held.compacted:
        raise expired(_TOO_OLD if start else "The resourceVersion for the provided list is too old.")
    chosen = [entry for entry in held.selected(selection, revision) if entry[0] > start]
    limit = int(query.get("limit") or 0)
    metadata: Document = {"resourceVersion": str(revision)}
    if limit and len(chosen) > limit:
        metadata["continue"] = _token(revision, chosen[limit - 1][0])
        if selection.whole:
            metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    api_version = row.api_version(target.version)
    head = msgspec.json.encode({"kind": f"{row.kind}List", "apiVersion": api_version, "metadata": metadata})
    items = b",".join(served_as(row, target.version, body) for _, _, body in chosen)
    return ApiResponse(200, b'%s,"items":[%s]}' % (head[:-1], items))


def _fields(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Return the requirements of a field selector: path, value, and whether they must be equal."""
    requirements = []
    for part in filter(None, text.split(",")):
        path, sign, value = part.partition("!=") if "!=" in part else part.replace("==", "=").partition("=")
        requirements.append((path, value, sign != "!="))
    return tuple(requirements)


def _token(revision: int, key: str) -> str:
    text = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key})
    return base64.urlsafe_b64encode(text).decode()


def _position(token: str) -> tuple[int, str]:
    try:
        held = jsontext.parse(base64.urlsafe_b64decode(token), dict[str, Any])
        return held["rv"], held["start"]
    except (ValueError, KeyError):
        raise bad_request("continue key is not valid") from None
