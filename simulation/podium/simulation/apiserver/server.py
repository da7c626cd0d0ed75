"""A model of kube-apiserver as a value: requests in, answers out, without I/O, clock or chance.

It answers the requests of Podium's processes, of the controllers beside them, and of users. Not modelled:
authorization beyond one predicate, conversion between versions of different forms, garbage collection,
quota, and the validation of kinds that no decision reads.
"""

import base64
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from podium import jsontext
from podium.api.selectors import parse_selector
from podium.api.times import written
from podium.minors.minor import Minor
from podium.simulation.apiserver import managedfields, pods
from podium.simulation.apiserver.managedfields import APPLY, UPDATE, FieldPath, Manager, Managers
from podium.simulation.apiserver.messages import (
    ApiError,
    ApiRequest,
    ApiResponse,
    Document,
    WebhookCall,
    WebhookFailure,
    bad_request,
    conflict,
    expired,
    missing,
    success,
)
from podium.simulation.apiserver.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    decoded_patch,
    json_patch,
    merge_patch,
    strategic_patch,
)
from podium.simulation.apiserver.resources import ResourceRow, custom_row, rows_of, undeclared
from podium.simulation.apiserver.storage import (
    ObjectStore,
    ObjectVersion,
    Selection,
    Watch,
    served_as,
)
from podium.simulation.apiserver.strategies import Strategies
from podium.simulation.apiserver.webhooks import Admitted, ReviewedWrite, review_all

Handling = Generator[WebhookCall, bytes | WebhookFailure, ApiResponse | Watch]
Stored = Generator[WebhookCall, bytes | WebhookFailure, Document]
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_PROBES = ("/readyz", "/livez", "/healthz")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_WEBHOOK_GROUP = "admissionregistration.k8s.io"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
    "list."
)
# From this minor on, the answer to an update that ends a deletion has the version of the deletion.
_ANSWERS_LAST_VERSION = 38
# Kinds whose key in etcd is not that of their resource.
_ETCD_NAMES = {"nodes": "minions"}


class Target(NamedTuple):
    """The resource, and the object if any, of a request."""

    request: ApiRequest
    row: ResourceRow
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> str:
        """Return the key of the object."""
        return f"{self.namespace}/{self.name}"

    @property
    def dry_run(self) -> bool:
        """Return whether nothing is stored."""
        return self.request.query.get("dryRun") == "All"

    @property
    def manager(self) -> Manager:
        """Return the manager of an update."""
        name = self.request.query.get("fieldManager") or self.request.user
        return Manager(name, UPDATE, self.row.api_version(self.version), self.subresource)


class Edited(NamedTuple):
    """The object that a request wants, and its managers."""

    document: Document
    managers: Managers
    applies: bool = False


# Returns the object that a request wants from the stored one, or from None.
Edit = Callable[[ObjectVersion | None], Edited]


class ApiServer:
    """An API server of one minor with everything that it stores."""

    def __init__(
        self,
        minor: Minor,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        new_suffix: Callable[[], str],
        *,
        allowed: Callable[[str, str, str], bool] = lambda _user, _verb, _resource: True,
    ) -> None:
        """`now` is wall time in UTC; `new_suffix` returns the end of a generated name.

        `allowed` says whether a user may use a verb on a resource.
        """
        self.store = ObjectStore()
        self._minor = minor
        self._now = now
        self._new_uid = new_uid
        self._new_suffix = new_suffix
        self._allowed = allowed
        self._strategies = Strategies(minor)
        self._rows: dict[tuple[str, str], ResourceRow] = {}
        for row in rows_of(minor):
            self._serve(row)

    @property
    def changed(self) -> list[Callable[[str], None]]:
        """Return the callbacks that get the resource of each write."""
        return self.store.changed

    def compact(self) -> None:
        """Forget the history before now, so older watches and continue tokens get 410."""
        self.store.compact()

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the answer to a request that needs neither a webhook nor a watch."""
        handling = self.handle(request)
        try:
            next(handling)
        except StopIteration as done:
            assert isinstance(done.value, ApiResponse), "a watch has lines, not an answer"
            return done.value
        raise AssertionError(f"{request.method} {request.path} needs a webhook")

    def handle(self, request: ApiRequest) -> Handling:
        """Yield each call of a webhook, which is sent its answer, and return the answer or the watch."""
        try:
            return (yield from self._handled(request))
        except ApiError as error:
            return error.response()

    def _handled(self, request: ApiRequest) -> Handling:
        if request.path in _PROBES:
            return ApiResponse(200, b"ok", {"Content-Type": "text/plain"})
        found = self._discovery(request.path)
        if found is not None:
            return _json(200, found)
        target = self._target(request)
        self._authorize(target)
        if request.method == "GET":
            return self._read(target)
        warnings: list[str] = []
        if request.method == "DELETE" and not target.name:
            return (yield from self._delete_all(target, warnings))
        code = 200
        match request.method:
            case "POST" if target.subresource == "binding":
                code, document = 201, self._bind(target)
            case "POST" if target.subresource == "eviction":
                code, document = 201, (yield from self._evict(target, warnings))
            case "POST":
                code, document = 201, (yield from self._create(target, warnings))
            case "PUT" | "PATCH":
                edit = self._put(target) if request.method == "PUT" else self._patch(target)
                code = 200 if self.store.find(target.row, target.key) else 201
                document = yield from self._write(target, edit, warnings)
            case "DELETE":
                document = yield from self._delete(target, _options(target), warnings)
            case _:
                raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        headers = {"Warning": ", ".join(f'299 - "{text}"' for text in warnings)} if warnings else {}
        return _json(code, document, headers)

    # Routing and discovery.

    def _serve(self, row: ResourceRow) -> None:
        self._rows[row.group, row.plural] = row
        self.store.serve(row)

    def _target(self, request: ApiRequest) -> Target:
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        head = 2 if parts[0] == "api" else 3
        group, version, rest = parts[1] if head == 3 else "", parts[head - 1] if len(parts) >= head else "", parts[head:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        row = self._rows.get((group, rest[0])) if rest else None
        if row is None or version not in row.versions or len(rest) > 3:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        name, subresource = (*rest[1:], "", "")[:2]
        if subresource and subresource not in row.subresources:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return Target(request, row, version, namespace, name, subresource)

    def _authorize(self, target: Target) -> None:
        row, method = target.row, target.request.method
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
        if method == "DELETE":
            verb = "delete" if target.name else "deletecollection"
        elif method == "GET":
            watched = target.request.query.get("watch") in ("1", "true")
            verb = "get" if target.name else "watch" if watched else "list"
        user = target.request.user
        resource = f"{row.resource}/{target.subresource}" if target.subresource else row.resource
        if self._allowed(user, verb, resource):
            return
        plural = f"{row.plural}/{target.subresource}" if target.subresource else row.plural
        where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
        subject = f'{row.resource} "{target.name}"' if target.name else row.resource
        text = f'User "{user}" cannot {verb} resource "{plural}" in API group "{row.group}" {where}'
        raise ApiError(403, "Forbidden", f"{subject} is forbidden: {text}")

    def _discovery(self, path: str) -> Document | None:
        if path == "/version":
            number = str(self._minor.number)
            return {"major": "1", "minor": number, "gitVersion": f"v{self._minor.release}", "emulationMinor": number}
        groups: dict[str, list[str]] = {}
        for row in self._rows.values():
            held = groups.setdefault(row.group, [])
            held += [version for version in row.versions if version not in held]
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        parts = path.strip("/").split("/")
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
            return {**_group(parts[1], groups[parts[1]]), "kind": "APIGroup", "apiVersion": "v1"}
        api = {"api": ("", *parts[1:]), "apis": tuple(parts[1:])}.get(parts[0], ())
        if len(api) != 2 or api[1] not in groups.get(api[0], ()):
            return None
        group, version = api
        entries = [
            entry
            for row in self._rows.values()
            if row.group == group and version in row.versions
            for entry in row.discovered()
        ]
        name = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries}

    # Reads.

    def _read(self, target: Target) -> ApiResponse | Watch:
        row, query = target.row, target.request.query
        if target.name:
            held = self._find(target)
            return ApiResponse(200, served_as(row, target.version, held.body))
        labels = query.get("labelSelector", "")
        try:
            selection = Selection(target.namespace, parse_selector(labels), _fields(query.get("fieldSelector", "")))
        except ValueError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        given = query.get("resourceVersion", "")
        if not given.isdecimal() and given:
            raise bad_request(f'resourceVersion: Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax')
        if query.get("watch") in ("1", "true"):
            return self._watch(target, selection, int(given or 0))
        return self._list(target, selection, int(given or 0))

    def _watch(self, target: Target, selection: Selection, revision: int) -> Watch:
        initial = target.request.query.get("sendInitialEvents") == "true"
        since = None if initial or not revision else revision
        return Watch(self.store, target.row, target.version, selection, since=since, initial=initial)

    def _list(self, target: Target, selection: Selection, wanted: int) -> ApiResponse:
        row, query, store = target.row, target.request.query, self.store
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
            raise expired(_TOO_OLD if start else f"The resourceVersion for the provided list is too old.")
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

    def _find(self, target: Target) -> ObjectVersion:
        held = self.store.find(target.row, target.key)
        if held is None:
            raise missing(target.row.resource, target.name)
        return held

    # Writes.

    def _decoded(self, target: Target) -> Document:
        """Return the object of a request in its stored version, identity first. Raises ApiError."""
        try:
            sent = jsontext.parse(target.request.body, Any)
        except ValueError as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None
        if not isinstance(sent, dict):
            raise bad_request("the object provided is unrecognized (must be of type Object)")
        return self._normal(target, sent)

    def _normal(self, target: Target, sent: Document) -> Document:
        row, api_version = target.row, target.row.api_version(target.version)
        if sent.get("apiVersion", api_version) != api_version:
            given = sent["apiVersion"]
            text = f"the API version in the data ({given}) does not match the expected API version ({api_version})"
            raise bad_request(text)
        metadata = {name: value for name, value in (sent.get("metadata") or {}).items() if value not in _EMPTY}
        for name, value in (("name", target.name), ("namespace", target.namespace)):
            if value and metadata.setdefault(name, value) != value:
                raise bad_request(_mismatch(name, metadata[name], value))
        rest = {
            name: _stripped(value)
            for name, value in sent.items()
            if value is not None and name not in ("apiVersion", "kind", "metadata")
        }
        head = {"apiVersion": row.api_version(row.stored), "kind": row.kind, "metadata": metadata}
        return {**head, **rest}

    def _create(self, target: Target, warnings: list[str]) -> Stored:
        document = self._decoded(target)
        metadata = document["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._new_suffix()}"
        if not metadata.get("name"):
            text = "name or generateName is required"
            raise ApiError(422, "Invalid", f'{target.row.qualified_kind} "" is invalid: metadata.name: Required value: {text}')
        named = target._replace(name=metadata["name"])
        return (yield from self._insert(named, document, self._update_managers(named), warnings))

    def _update_managers(self, target: Target) -> Callable[[Document], Managers]:
        def managers(document: Document) -> Managers:
            return self._updated(target, dict(target.row.zero), document, {})

        return managers

    def _updated(self, target: Target, old: Document, new: Document, managers: Managers) -> Managers:
        ignored = _unapplied(target.row, target.subresource)
        time = written(self._now())
        return managedfields.updated(target.row, old, new, managers, target.manager, ignored, time)

    def _insert(
        self, target: Target, sent: Document, managers: Callable[[Document], Managers], warnings: list[str]
    ) -> Stored:
        """Create an object. Raises ApiError."""
        row = target.row
        self._check_namespace(target)
        metadata = {
            name: value
            for name, value in sent["metadata"].items()
            if name not in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")
        }
        if str(metadata.pop("resourceVersion", "0")).strip("0") and target.request.method == "POST":
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = written(self._now())
        metadata.pop("generation", None)
        if row.has_generation or row.kind == "PriorityClass":
            metadata["generation"] = 1
        document = self._strategies.defaulted(row, {**sent, "metadata": metadata})
        owners = managers(document)
        if row.kind == "Pod":
            # The plugins that set priority and tolerations come before webhooks.
            document = self._strategies.creates(row, document, written(self._now()))
        document = yield from self._admit(target, "CREATE", document, None, warnings)
        document = self._strategies.creates(row, document, written(self._now()))
        yield from self._validate(target, "CREATE", document, None, warnings)
        held = self.store.find(row, target.key)
        if held is not None:
            being = "object is being deleted: " if "deletionTimestamp" in held.document["metadata"] else ""
            raise ApiError(409, "AlreadyExists", f'{being}{row.resource} "{target.name}" already exists')
        return self._stored(target, document, owners)

    def _put(self, target: Target) -> Edit:
        sent = self._decoded(target)

        def edit(live: ObjectVersion | None) -> Edited:
            if live is None:
                if target.row.kind in ("Lease", "Event") and not target.subresource:
                    if uid := sent["metadata"].get("uid"):
                        raise self._other_uid(target, uid, "")
                    return Edited(sent, {})
                raise missing(target.row.resource, target.name)
            uid, stored = sent["metadata"].get("uid"), live.document["metadata"]["uid"]
            if uid and uid != stored:
                raise self._other_uid(target, uid, stored)
            # The managers that a client sends replace the stored ones.
            given, held = sent["metadata"].get("managedFields"), live.document["metadata"].get("managedFields")
            return Edited(sent, managedfields.decoded(given) if given and given != held else live.managers)

        return edit

    def _other_uid(self, target: Target, uid: str, stored: str) -> ApiError:
        row = target.row
        plural = f"{row.group}/{row.plural}" if row.custom else _ETCD_NAMES.get(row.plural, row.plural)
        key = "/".join(part for part in ("/registry", plural, target.namespace, target.name) if part)
        text = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}"
        )
        return conflict(row.resource, target.name, text)

    def _patch(self, target: Target) -> Edit:
        row, kind = target.row, target.request.content_type
        if kind == STRATEGIC and row.custom or kind not in (APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC):
            accepted = f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
            text = f"the body of the request was in an unknown format - {accepted}"
            raise ApiError(415, "UnsupportedMediaType", text)
        patch = decoded_patch(kind, target.request.body)
        if kind == APPLY_PATCH:
            return self._apply(target, patch)

        def edit(live: ObjectVersion | None) -> Edited:
            if live is None:
                raise missing(row.resource, target.name)
            shown = {**live.document, "apiVersion": row.api_version(target.version)}
            if kind == JSON_PATCH:
                changed = json_patch(shown, patch)
            elif kind == MERGE_PATCH:
                changed = merge_patch(shown, patch)
            else:
                changed = strategic_patch(row, shown, patch)
            return Edited(self._normal(target, changed), live.managers)

        return edit

    def _apply(self, target: Target, patch: Any) -> Edit:
        row, query = target.row, target.request.query
        if not query.get("fieldManager"):
            text = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
            raise ApiError(422, "Invalid", text)
        config = self._normal(target, patch)
        if row.custom and (unknown := undeclared(row.schemas.get(target.version, {}), config, "")):
            metadata = config["metadata"]
            where = f"{(patch.get('metadata') or {}).get('namespace', '')}/{metadata['name']}; {row.api_version(target.version)}, Kind={row.kind}"
            text = f"failed to create typed patch object ({where}): {unknown}: field not declared in schema"
            raise ApiError(500, "", text)
        if config["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        manager = Manager(query["fieldManager"], APPLY, "", target.subresource)

        def edit(live: ObjectVersion | None) -> Edited:
            if live is None and target.subresource:
                raise missing(row.resource, target.name)
            base = {**config, **{}} if live is None else live.document
            merged, managers = managedfields.applied(
                row,
                {"apiVersion": config["apiVersion"], "kind": row.kind, "metadata": {}} if live is None else base,
                config,
                {} if live is None else live.managers,
                manager,
                version=row.api_version(target.version),
                force=query.get("force") == "true",
                ignored=_unapplied(row, target.subresource),
                time=written(self._now()),
            )
            return Edited(merged, managers, applies=True)

        return edit

    def _write(self, target: Target, edit: Edit, warnings: list[str]) -> Stored:
        """Change an object, or create it if the edit allows that. Raises ApiError."""
        row = target.row
        while True:
            live = self.store.find(row, target.key)
            edited = edit(live)
            if live is None:
                if uid := edited.document["metadata"].get("uid"):
                    text = f"the provided object specified uid {uid}, and no existing object was found"
                    raise conflict(row.resource, target.name, f"uid mismatch: {text}")
                managers = (lambda _: edited.managers) if edited.applies else self._update_managers(target)
                return (yield from self._insert(target, edited.document, managers, warnings))
            old = live.document
            self._check_version(target, edited.document["metadata"], old["metadata"])
            document = self._strategies.defaulted(row, edited.document)
            if not edited.applies:
                edited = edited._replace(managers=self._updated(target, old, document, edited.managers))
            document = yield from self._admit(target, "UPDATE", document, old, warnings)
            document = self._strategies.updates(row, document, old, target.subresource)
            yield from self._validate(target, "UPDATE", document, old, warnings)
            if self.store.find(row, target.key) is not live:
                # A webhook took its time, and another request was first.
                warnings.clear()
                continue
            return self._changed(target, live, document, edited)

    def _changed(self, target: Target, live: ObjectVersion, document: Document, edited: Edited) -> Document:
        row, old = target.row, live.document
        managers = edited.managers
        metadata = {**document["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
        _set_managers(metadata, managers, live)
        changed = {**document, "metadata": metadata}
        if changed == old:
            return self._shown(target, old)
        if _is_done(row, changed):
            if not target.dry_run:
                removed = self._removed(target, old)
                if self._minor.number >= _ANSWERS_LAST_VERSION:
                    metadata["resourceVersion"] = str(removed.revision)
            return self._shown(target, changed)
        if target.dry_run:
            return self._shown(target, changed)
        version = self.store.put(row, changed, managers)
        self._after(row, version)
        return self._shown(target, version.document)

    def _stored(self, target: Target, document: Document, managers: Managers) -> Document:
        metadata = dict(document["metadata"])
        _set_managers(metadata, managers, None)
        document = {**document, "metadata": metadata}
        if target.dry_run:
            return self._shown(target, document)
        version = self.store.put(target.row, document, managers)
        self._after(target.row, version)
        return self._shown(target, version.document)

    def _removed(self, target: Target, document: Document) -> ObjectVersion:
        version = self.store.delete(target.row, document)
        self._after(target.row, version, deleted=True)
        return version

    def _after(self, row: ResourceRow, version: ObjectVersion, *, deleted: bool = False) -> None:
        """Follow a write in what the server itself reads: classes, and definitions."""
        self._strategies.stored(row, version, deleted=deleted)
        if row.kind != "CustomResourceDefinition":
            return
        served = custom_row(version.document)
        if deleted:
            self._rows.pop((served.group, served.plural), None)
            return
        self._serve(served)
        if not (version.document.get("status") or {}).get("conditions"):
            time = written(self._now())
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": time, "reason": reason, "message": ""}
                for kind, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
            ]
            names = version.document["spec"]["names"]
            status = {"conditions": conditions, "acceptedNames": names, "storedVersions": [served.stored]}
            self.store.put(row, {**version.document, "status": status}, version.managers)

    def _shown(self, target: Target, document: Document) -> Document:
        return {**document, "apiVersion": target.row.api_version(target.version)}

    def _check_version(self, target: Target, metadata: Mapping[str, Any], old: Mapping[str, Any]) -> None:
        given = str(metadata.get("resourceVersion") or "0")
        if not given.isdecimal():
            raise ApiError(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
        if not int(given):
            if target.row.guarded or target.row.kind in _GUARDED:
                text = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
                raise ApiError(422, "Invalid", f'{target.row.resource} "{target.name}" is invalid: {text}')
        elif given != old["resourceVersion"]:
            raise conflict(target.row.resource, target.name, _MODIFIED)

    def _check_namespace(self, target: Target) -> None:
        """Raise ApiError if the namespace of a new object does not exist or is going."""
        if not target.row.namespaced:
            return
        held = self.store.find(self._rows["", "namespaces"], f"/{target.namespace}")
        if held is None:
            raise missing("namespaces", target.namespace)
        if "deletionTimestamp" in held.document["metadata"]:
            text = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise ApiError(403, "Forbidden", f'{target.row.resource} "{target.name}" is forbidden: {text}')

    # Admission.

    def _admit(
        self, target: Target, operation: str, document: Document, old: Document | None, warnings: list[str]
    ) -> Stored:
        admitted = yield from self._review(target, operation, document, old, warnings, mutating=True)
        assert admitted is not None
        return admitted

    def _validate(
        self, target: Target, operation: str, document: Document | None, old: Document | None, warnings: list[str]
    ) -> Generator[WebhookCall, bytes | WebhookFailure, None]:
        yield from self._review(target, operation, document, old, warnings, mutating=False)

    def _review(
        self,
        target: Target,
        operation: str,
        document: Document | None,
        old: Document | None,
        warnings: list[str],
        *,
        mutating: bool,
    ) -> Generator[WebhookCall, bytes | WebhookFailure, Document | None]:
        webhooks = list(self._webhooks(mutating=mutating))
        if not webhooks or target.row.group == _WEBHOOK_GROUP:
            return document
        namespace = self.store.find(self._rows["", "namespaces"], f"/{target.namespace}")
        labels = (namespace.document["metadata"].get("labels") or {}) if namespace else {}
        write = ReviewedWrite(
            target.row,
            target.version,
            target.subresource,
            operation,
            target.namespace,
            target.name,
            document,
            old,
            target.dry_run,
            target.request.user,
            labels,
        )
        admitted: Admitted = yield from review_all(webhooks, write, self._new_uid(), mutating=mutating)
        warnings += admitted.warnings
        return admitted.document

    def _webhooks(self, *, mutating: bool) -> Iterator[Document]:
        held = self.store.resources[f"{_WEBHOOKS[not mutating]}.{_WEBHOOK_GROUP}"].now
        for key in sorted(held):
            yield from held[key].document.get("webhooks") or ()

    # Subresources of pods, and deletion.

    def _bind(self, target: Target) -> Document:
        binding = jsontext.parse(target.request.body, dict[str, Any])
        given = binding.get("metadata") or {}
        if given.get("name", target.name) != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        held = self._find(target)
        self._precondition(target, held, given)
        pod = pods.bound(held.document, {**binding, "metadata": given}, written(self._now()))
        if not target.dry_run:
            self.store.put(target.row, pod, held.managers)
        return success(201)

    def _precondition(self, target: Target, held: ObjectVersion, given: Mapping[str, Any]) -> None:
        uid, stored = given.get("uid"), held.document["metadata"]["uid"]
        if uid and uid != stored:
            raise self._other_uid(target, uid, stored)

    def _evict(self, target: Target, warnings: list[str]) -> Stored:
        eviction = jsontext.parse(target.request.body, dict[str, Any])
        if (eviction.get("metadata") or {}).get("name", target.name) != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = eviction.get("deleteOptions") or {}
        dry = target.dry_run or bool(options.get("dryRun"))
        if dry:
            query = {**target.request.query, "dryRun": "All"}
            target = target._replace(request=target.request._replace(query=query))
        held = self._find(target)
        yield from self._validate(target, "CREATE", eviction, None, warnings)
        budget, time = None, written(self._now())
        if not pods.ignores_budgets(held.document):
            row = self._rows["policy", "poddisruptionbudgets"]
            budgets = [version.document for version in self.store.resources[row.resource].now.values()]
            budget, _ = pods.charged(held.document, budgets, time)
            if budget is not None and not dry:
                self.store.put(row, budget, self.store.resources[row.resource].now[f"{target.namespace}/{budget['metadata']['name']}"].managers)
        plain = target._replace(subresource="")
        if not dry:
            _check_preconditions("Pod", target.name, options, held)
            evicted = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            status = pods.with_condition(held.document["status"], evicted, time)
            if status != held.document["status"]:
                self.store.put(target.row, {**held.document, "status": status}, held.managers)
            options = {**options, "preconditions": {"uid": held.document["metadata"]["uid"]}}
        yield from self._delete(plain, options, warnings)
        return success(201)

    def _delete(self, target: Target, options: Document, warnings: list[str]) -> Stored:
        row = target.row
        held = self._find(target)
        dry = target.dry_run or bool(options.get("dryRun"))
        target = target._replace(request=target.request._replace(query={**target.request.query, **({"dryRun": "All"} if dry else {})}))
        yield from self._validate(target, "DELETE", None, held.document, warnings)
        held = self._find(target)
        _check_preconditions(row.qualified_kind, target.name, options, held)
        if row.kind == "Namespace" and target.name in ("default", "kube-system", "kube-public"):
            raise ApiError(403, "Forbidden", f'namespaces "{target.name}" is forbidden: this namespace may not be deleted')
        marked = self._marked(row, held.document, options)
        if marked is None:
            return self._shown(target, held.document)
        document, waits = marked
        if waits:
            if document == held.document:
                return self._shown(target, document)
            return self._stored_again(target, document, held.managers)
        if dry:
            return self._deleted(target, document)
        if self._grace(row, document, options) is None:
            document = held.document
        elif document != held.document:
            # Pods are marked first, although they do not wait.
            document = self._stored_again(target, document, held.managers)
        return self._deleted(target, self._removed(target, document).document)

    def _stored_again(self, target: Target, document: Document, managers: Managers) -> Document:
        if target.dry_run:
            return self._shown(target, document)
        version = self.store.put(target.row, document, managers)
        self._after(target.row, version)
        return version.document

    def _deleted(self, target: Target, document: Document) -> Document:
        if target.row.returns_deleted:
            return self._shown(target, document)
        details = {"name": target.name, "kind": target.row.plural, "uid": document["metadata"]["uid"]}
        return success(200, details | ({"group": target.row.group} if target.row.group else {}))

    def _marked(self, row: ResourceRow, document: Document, options: Document) -> tuple[Document, bool] | None:
        """Return an object that a deletion has marked, and whether it waits; None if nothing changes."""
        metadata = dict(document["metadata"])
        finalizers = _deletion_finalizers(metadata.get("finalizers") or [], options.get("propagationPolicy"))
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        grace = self._grace(row, document, options)
        going = "deletionTimestamp" in metadata
        if row.kind == "Namespace":
            if going:
                return None
            self._mark(metadata, 0)
            metadata.pop("deletionGracePeriodSeconds")
            return {**document, "metadata": metadata, "status": {**document["status"], "phase": "Terminating"}}, True
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
            self._mark(metadata, grace or 0)
        return {**document, "metadata": metadata}, bool(finalizers or grace)

    def _mark(self, metadata: Document, grace: int) -> None:
        metadata["deletionTimestamp"] = written(self._now() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1

    def _grace(self, row: ResourceRow, document: Document, options: Document) -> int | None:
        """Return the grace period of a pod in seconds; None for kinds without one."""
        if row.kind != "Pod" or row.custom:
            return None
        spec = document["spec"]
        if not spec.get("nodeName") or document["status"].get("phase") in ("Failed", "Succeeded"):
            return 0
        given = options.get("gracePeriodSeconds")
        grace = spec.get("terminationGracePeriodSeconds", 0) if given is None else given
        return int(grace) if grace >= 0 else 1

    def _delete_all(self, target: Target, warnings: list[str]) -> Handling:
        selection = Selection(target.namespace, parse_selector(target.request.query.get("labelSelector", "")))
        held = self.store.resources[target.row.resource]
        chosen = [document for _, document, _ in held.selected(selection, self.store.revision)]
        for document in chosen:
            metadata = document["metadata"]
            one = target._replace(name=metadata["name"], namespace=metadata.get("namespace", ""))
            yield from self._delete(one, _options(target), warnings)
        row = target.row
        head = {"kind": f"{row.kind}List", "apiVersion": row.api_version(target.version)}
        return _json(200, {**head, "metadata": {"resourceVersion": str(self.store.revision)}, "items": chosen})


# The finalizers by which an API server leaves dependents to the garbage collector.
_PROPAGATION = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
# Values that Go leaves out of metadata.
_EMPTY = (None, "", {}, [])
_GUARDED = (
    "Lease",
    "PodDisruptionBudget",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)


def _check_preconditions(resource: str, name: str, options: Mapping[str, Any], held: ObjectVersion) -> None:
    given, metadata = options.get("preconditions") or {}, held.document["metadata"]
    uid, version = given.get("uid"), given.get("resourceVersion")
    if uid and uid != metadata["uid"]:
        text = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(resource, name, text)
    if version and version != metadata["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise conflict(resource, name, text)


def _deletion_finalizers(present: list[str], policy: str | None) -> list[str]:
    """Return the finalizers of an object whose deletion begins: those of garbage collection follow the policy."""
    finalizers = [name for name in present if name not in _PROPAGATION.values()]
    if policy is None:
        chosen = next((name for name in present if name in _PROPAGATION.values()), None)
    else:
        chosen = _PROPAGATION.get(policy)
    return finalizers + ([chosen] if chosen else [])


def _options(target: Target) -> Document:
    """Return the DeleteOptions of a request."""
    options: Document = jsontext.parse(target.request.body, dict[str, Any]) if target.request.body else {}
    query = target.request.query
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    return options


def _unapplied(row: ResourceRow, subresource: str) -> tuple[FieldPath, ...]:
    """Return the fields that an apply at this path cannot set."""
    if subresource == "status":
        if row.custom or row.group:
            return (("f:spec",), ("f:metadata",))
        return (("f:spec",), ("f:metadata", "f:ownerReferences"))
    return (("f:status",),) if "status" in row.subresources and row.resets_status else ()


def _set_managers(metadata: Document, managers: Managers, live: ObjectVersion | None) -> None:
    if live is not None and managers is live.managers:
        fields = live.document["metadata"].get("managedFields")
    else:
        fields = managedfields.encoded(managers)
    if fields:
        metadata["managedFields"] = fields
    else:
        metadata.pop("managedFields", None)


def _is_done(row: ResourceRow, document: Mapping[str, Any]) -> bool:
    """Return whether an object that is being deleted waits for nothing any more."""
    metadata = document["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if row.kind == "Namespace":
        return not document["spec"].get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _stripped(value: Any) -> Any:
    """Return a value without the fields that are null, which no typed object has."""
    if isinstance(value, dict):
        return {name: _stripped(part) for name, part in value.items() if part is not None}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def _mismatch(field: str, given: str, wanted: str) -> str:
    if field == "namespace":
        return "the namespace of the provided object does not match the namespace sent on the request"
    return f"the name of the object ({given}) does not match the name on the URL ({wanted})"


def _json(code: int, document: Document, headers: Mapping[str, str] = {}) -> ApiResponse:
    return ApiResponse(code, msgspec.json.encode(document), headers)


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


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
