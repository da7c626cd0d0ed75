"""A model of kube-apiserver as a value: requests in, answers out, without I/O, clock or chance.

It answers the requests of Podium's processes, of the controllers beside them, and of users. Not modelled:
authorization beyond one predicate, conversion between versions of different forms, garbage collection,
quota, and the validation of kinds that no decision reads.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from podium import jsontext
from podium.api.selectors import parse_selector
from podium.api.times import written
from podium.minors.minor import Minor
from podium.simulation.apiserver import managedfields, pods
from podium.simulation.apiserver.deletions import (
    check_preconditions,
    delete_options,
    marked,
)
from podium.simulation.apiserver.edits import (
    Edit,
    Edited,
    decoded,
    other_uid,
    patch_edit,
    put_edit,
    unapplied,
)
from podium.simulation.apiserver.managedfields import Managers
from podium.simulation.apiserver.messages import (
    ApiError,
    ApiRequest,
    ApiResponse,
    Document,
    WebhookCall,
    WebhookFailure,
    bad_request,
    conflict,
    missing,
    success,
)
from podium.simulation.apiserver.resources import ResourceRow, custom_row, rows_of
from podium.simulation.apiserver.routing import Routes, Target
from podium.simulation.apiserver.storage import (
    Change,
    ObjectStore,
    ObjectVersion,
    Selection,
    Watch,
    read,
)
from podium.simulation.apiserver.strategies import Strategies
from podium.simulation.apiserver.webhooks import (
    AdmittedWrite,
    Conditions,
    ReviewedWrite,
    no_conditions,
    review_all,
)

Handling = Generator[WebhookCall, bytes | WebhookFailure, ApiResponse | Watch]
Stored = Generator[WebhookCall, bytes | WebhookFailure, Document]
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_PROBES = ("/readyz", "/livez", "/healthz")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_WEBHOOK_GROUP = "admissionregistration.k8s.io"
# From this minor on, the answer to an update that ends a deletion has the version of the deletion.
_ANSWERS_LAST_VERSION = 38


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
        conditions: Conditions = no_conditions,
        gates: frozenset[str] | None = None,
    ) -> None:
        """`now` is wall time in UTC; `new_suffix` returns the end of a generated name.

        `allowed` says whether a user may use a verb on a resource, and `conditions` whether the
        matchConditions of a webhook hold. `gates` are the feature gates that are on, by default those of
        the minor and of the native groups.
        """
        self.store = ObjectStore()
        self._minor = minor
        self._now = now
        self._new_uid = new_uid
        self._new_suffix = new_suffix
        self._allowed = allowed
        self._conditions = conditions
        if gates is None:
            gates = minor.enabled(dict.fromkeys(minor.workload_gates, True))
        self._strategies = Strategies(minor, gates)
        self._routes = Routes(minor)
        for row in rows_of(minor, gates):
            self._serve(row)

    @property
    def changed(self) -> list[Callable[[str, Change], None]]:
        """Return the callbacks that get each write, and its resource."""
        return self.store.changed

    def compact(self) -> None:
        """Forget the history before now, so older watches and continue tokens get 410."""
        self.store.compact()

    def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the answer to a request that needs neither a webhook nor a watch."""
        handling = self.handle(request)
        try:
            call = next(handling)
        except StopIteration as done:
            response: ApiResponse = done.value
            return response
        raise RuntimeError(f"{request.method} {request.path} calls the webhook {call.webhook}")

    def handle(self, request: ApiRequest) -> Handling:
        """Yield each call of a webhook, which is sent its answer, and return the answer or the watch."""
        try:
            return (yield from self._handled(request))
        except ApiError as error:
            return error.response()

    def _handled(self, request: ApiRequest) -> Handling:
        if request.path in _PROBES:
            return ApiResponse(200, b"ok", {"Content-Type": "text/plain"})
        found = self._routes.discovery(request.path)
        if found is not None:
            return _json(200, found)
        target = self._routes.target(request)
        resource = target.row.resource + (f"/{target.subresource}" if target.subresource else "")
        if not self._allowed(request.user, target.verb, resource):
            raise target.denial()
        if request.method == "GET":
            return read(self.store, target)
        warnings: list[str] = []
        if request.method == "DELETE" and not target.name:
            return (yield from self._delete_all(target, warnings))
        code = 200
        match request.method:
            case "POST" if target.subresource == "binding":
                code, document = 201, (yield from self._bind(target, warnings))
            case "POST" if target.subresource == "eviction":
                code, document = 201, (yield from self._evict(target, warnings))
            case "POST":
                code, document = 201, (yield from self._create(target, warnings))
            case "PUT" | "PATCH":
                edit = put_edit(target) if request.method == "PUT" else patch_edit(target, self._now())
                code = 200 if self.store.find(target.row, target.place) else 201
                document = yield from self._write(target, edit, warnings)
            case "DELETE":
                document = yield from self._delete(target, delete_options(target.request), warnings)
            case _:
                raise ApiError(
                    405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
                )
        headers = {"Warning": ", ".join(f'299 - "{text}"' for text in warnings)} if warnings else {}
        return _json(code, document, headers)

    def _serve(self, row: ResourceRow) -> None:
        self._routes.add(row)
        self.store.serve(row)

    # Writes.

    def _create(self, target: Target, warnings: list[str]) -> Stored:
        document = decoded(target)
        metadata = document["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._new_suffix()}"
        if not metadata.get("name"):
            text = "name or generateName is required"
            raise ApiError(
                422,
                "Invalid",
                f'{target.row.qualified_kind} "" is invalid: metadata.name: Required value: {text}',
            )
        named = target._replace(name=metadata["name"])
        return (yield from self._insert(named, document, None, warnings))

    def _updated(self, target: Target, old: Document, new: Document, managers: Managers) -> Managers:
        ignored = unapplied(target.row, target.subresource)
        time = written(self._now())
        return managedfields.updated(
            target.row, old, new, managers, target.manager, ignored=ignored, time=time
        )

    def _insert(
        self, target: Target, sent: Document, managers: Managers | None, warnings: list[str]
    ) -> Stored:
        """Create an object; `managers` are those of an apply. Raises ApiError."""
        row = target.row
        self._check_namespace(target)
        metadata = {
            name: value
            for name, value in sent["metadata"].items()
            if name
            not in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")
        }
        if str(metadata.pop("resourceVersion", "0")).strip("0") and target.request.method == "POST":
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = written(self._now())
        metadata.pop("generation", None)
        if row.has_generation or row.kind == "PriorityClass":
            metadata["generation"] = 1
        document = self._strategies.defaulted(row, {**sent, "metadata": metadata})
        if managers is None:
            managers = self._updated(target, dict(row.zero), document, {})
        prepared = document
        if row.kind == "Pod":
            # The plugins that set priority and tolerations come before webhooks.
            prepared = self._strategies.creates(row, document, written(self._now()))
        document = yield from self._admit(target, "CREATE", prepared, None, warnings)
        if row.kind != "Pod" or document is not prepared:
            document = self._strategies.creates(row, document, written(self._now()))
        yield from self._validate(target, "CREATE", document, None, warnings)
        held = self.store.find(row, target.place)
        if held is not None:
            being = "object is being deleted: " if "deletionTimestamp" in held.document["metadata"] else ""
            raise ApiError(409, "AlreadyExists", f'{being}{row.resource} "{target.name}" already exists')
        return self._stored(target, document, managers)

    def _write(self, target: Target, edit: Edit, warnings: list[str]) -> Stored:
        """Change an object, or create it if the edit allows that. Raises ApiError."""
        row = target.row
        while True:
            live = self.store.find(row, target.place)
            edited = edit(live)
            if live is None:
                if uid := edited.document["metadata"].get("uid"):
                    text = f"the provided object specified uid {uid}, and no existing object was found"
                    raise conflict(row.resource, target.name, f"uid mismatch: {text}")
                managers = edited.managers if edited.applies else None
                return (yield from self._insert(target, edited.document, managers, warnings))
            old = live.document
            self._check_version(target, edited.document["metadata"], old["metadata"])
            document = self._strategies.defaulted(row, edited.document)
            if not edited.applies:
                edited = edited._replace(managers=self._updated(target, old, document, edited.managers))
            document = yield from self._admit(target, "UPDATE", document, old, warnings)
            document = self._strategies.updates(row, document, old, target.subresource)
            yield from self._validate(target, "UPDATE", document, old, warnings)
            if self.store.find(row, target.place) is not live:
                # A webhook took its time, and another request was first.
                warnings.clear()
                continue
            return self._store_edit(target, live, document, edited)

    def _store_edit(
        self, target: Target, live: ObjectVersion, document: Document, edited: Edited
    ) -> Document:
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
            self._routes.remove(served)
            return
        self._serve(served)
        if not (version.document.get("status") or {}).get("conditions"):
            time = written(self._now())
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": time, "reason": reason, "message": ""}
                for kind, reason in (
                    ("NamesAccepted", "NoConflicts"),
                    ("Established", "InitialNamesAccepted"),
                )
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
        held = self.store.find(self._routes.row("", "namespaces"), f"/{target.namespace}")
        if held is None:
            raise missing("namespaces", target.namespace)
        if "deletionTimestamp" in held.document["metadata"]:
            text = (
                f"unable to create new content in namespace {target.namespace} because it is being terminated"
            )
            raise ApiError(403, "Forbidden", f'{target.row.resource} "{target.name}" is forbidden: {text}')

    # Admission.

    def _admit(
        self, target: Target, operation: str, document: Document, old: Document | None, warnings: list[str]
    ) -> Stored:
        admitted = yield from self._review(target, operation, document, old, warnings, mutating=True)
        assert admitted is not None
        return admitted

    def _validate(
        self,
        target: Target,
        operation: str,
        document: Document | None,
        old: Document | None,
        warnings: list[str],
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
        namespace = self.store.find(self._routes.row("", "namespaces"), f"/{target.namespace}")
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
            _POSTED_KINDS.get(target.subresource),
        )
        admitted: AdmittedWrite = yield from review_all(
            webhooks, write, self._new_uid(), self._conditions, mutating=mutating
        )
        warnings += admitted.warnings
        return admitted.document

    def _webhooks(self, *, mutating: bool) -> Iterator[Document]:
        held = self.store.resources[f"{_WEBHOOKS[not mutating]}.{_WEBHOOK_GROUP}"].now
        for key in sorted(held):
            yield from held[key].document.get("webhooks") or ()

    # Subresources of pods, and deletion.

    def _bind(self, target: Target, warnings: list[str]) -> Stored:
        binding = jsontext.parse(target.request.body, dict[str, Any])
        given = binding.get("metadata") or {}
        if given.get("name", target.name) != target.name:
            raise bad_request("name in URL does not match name in Binding object")
        yield from self._validate(target, "CREATE", binding, None, warnings)
        held = self.store.existing(target.row, target.place)
        uid, stored = given.get("uid"), held.document["metadata"]["uid"]
        if uid and uid != stored:
            raise other_uid(target, uid, stored)
        pod = pods.bound(held.document, {**binding, "metadata": given}, written(self._now()))
        if not target.dry_run:
            self.store.put(target.row, pod, held.managers)
        return success(201)

    def _evict(self, target: Target, warnings: list[str]) -> Stored:
        eviction = jsontext.parse(target.request.body, dict[str, Any])
        if (eviction.get("metadata") or {}).get("name", target.name) != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = eviction.get("deleteOptions") or {}
        dry = target.dry_run or bool(options.get("dryRun"))
        if dry:
            query = {**target.request.query, "dryRun": "All"}
            target = target._replace(request=target.request._replace(query=query))
        yield from self._validate(target, "CREATE", eviction, None, warnings)
        held = self.store.existing(target.row, target.place)
        budget, time = None, written(self._now())
        if not pods.ignores_budgets(held.document):
            row = self._routes.row("policy", "poddisruptionbudgets")
            budgets = [version.document for version in self.store.resources[row.resource].now.values()]
            budget, _ = pods.charged(held.document, budgets, time)
            if budget is not None and not dry:
                self.store.put(
                    row,
                    budget,
                    self.store.resources[row.resource]
                    .now[f"{target.namespace}/{budget['metadata']['name']}"]
                    .managers,
                )
        plain = target._replace(subresource="")
        if not dry:
            check_preconditions("Pod", target.name, options, held)
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
        held = self.store.existing(target.row, target.place)
        dry = target.dry_run or bool(options.get("dryRun"))
        target = target._replace(
            request=target.request._replace(
                query={**target.request.query, **({"dryRun": "All"} if dry else {})}
            )
        )
        yield from self._validate(target, "DELETE", None, held.document, warnings)
        held = self.store.existing(target.row, target.place)
        check_preconditions(row.qualified_kind, target.name, options, held)
        if row.kind == "Namespace" and target.name in ("default", "kube-system", "kube-public"):
            raise ApiError(
                403,
                "Forbidden",
                f'namespaces "{target.name}" is forbidden: this namespace may not be deleted',
            )
        mark = marked(row, held.document, options, self._now())
        if mark is None:
            return self._shown(target, held.document)
        document = held.document
        if mark.document != document and (mark.waits or mark.graceful):
            document = self._stored_again(target, mark.document, held.managers)
        if mark.waits:
            return self._shown(target, document)
        if not dry:
            document = self._removed(target, document).document
        return self._deleted(target, document)

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

    def _delete_all(self, target: Target, warnings: list[str]) -> Handling:
        selection = Selection(target.namespace, parse_selector(target.request.query.get("labelSelector", "")))
        held = self.store.resources[target.row.resource]
        chosen = [document for _, document, _ in held.selected(selection, self.store.revision)]
        for document in chosen:
            metadata = document["metadata"]
            one = target._replace(name=metadata["name"], namespace=metadata.get("namespace", ""))
            yield from self._delete(one, delete_options(target.request), warnings)
        row = target.row
        head = {"kind": f"{row.kind}List", "apiVersion": row.api_version(target.version)}
        return _json(
            200, {**head, "metadata": {"resourceVersion": str(self.store.revision)}, "items": chosen}
        )


# The kinds of the documents that clients post to subresources: group, version and kind.
_POSTED_KINDS = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}
_GUARDED = (
    "Lease",
    "PodDisruptionBudget",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)


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


def _json(code: int, document: Document, headers: Mapping[str, str] = {}) -> ApiResponse:
    return ApiResponse(code, msgspec.json.encode(document), headers)
