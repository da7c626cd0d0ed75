"""The resources of a server: which one a request is for, and their discovery."""

from typing import NamedTuple
from urllib.parse import unquote

from podium.minors.minor import Minor
from podium.simulation.apiserver.managedfields import UPDATE, FieldManager
from podium.simulation.apiserver.messages import ApiError, ApiRequest, Document
from podium.simulation.apiserver.resources import ResourceRow

# The paths of objects and lists are mostly longer.
_DISCOVERY_DEPTH = 3


class Target(NamedTuple):
    """The resource, and the object if any, of a request."""

    request: ApiRequest
    row: ResourceRow
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def place(self) -> str:
        """Return the key of the object."""
        return f"{self.namespace}/{self.name}"

    @property
    def dry_run(self) -> bool:
        """Return whether nothing is stored."""
        return self.request.query.get("dryRun") == "All"

    @property
    def manager(self) -> FieldManager:
        """Return the manager of an update."""
        name = self.request.query.get("fieldManager") or self.request.user
        return FieldManager(name, UPDATE, self.row.api_version(self.version), self.subresource)

    @property
    def verb(self) -> str:
        """Return the verb as in RBAC."""
        method = self.request.method
        if method == "DELETE":
            return "delete" if self.name else "deletecollection"
        if method == "GET":
            watched = self.request.query.get("watch") in ("1", "true")
            return "get" if self.name else "watch" if watched else "list"
        return {"POST": "create", "PUT": "update", "PATCH": "patch"}[method]

    def denial(self) -> ApiError:
        """Return the 403 of a user who may not do this."""
        row, user = self.row, self.request.user
        plural = f"{row.plural}/{self.subresource}" if self.subresource else row.plural
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        subject = f'{row.resource} "{self.name}"' if self.name else row.resource
        text = f'User "{user}" cannot {self.verb} resource "{plural}" in API group "{row.group}" {where}'
        return ApiError(403, "Forbidden", f"{subject} is forbidden: {text}")


class Routes:
    """The served resources by group and plural."""

    def __init__(self, minor: Minor) -> None:
        self._minor = minor
        self._rows: dict[tuple[str, str], ResourceRow] = {}

    def add(self, row: ResourceRow) -> None:
        """Serve a resource, or change its row."""
        self._rows[row.group, row.plural] = row

    def remove(self, row: ResourceRow) -> None:
        """Stop serving a resource."""
        self._rows.pop((row.group, row.plural), None)

    def row(self, group: str, plural: str) -> ResourceRow:
        """Return a resource that is always served."""
        return self._rows[group, plural]

    def target(self, request: ApiRequest) -> Target:
        """Return what a request is for. Raises ApiError (404)."""
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        head = 2 if parts[0] == "api" else 3
        group, version, rest = (
            parts[1] if head == 3 else "",
            parts[head - 1] if len(parts) >= head else "",
            parts[head:],
        )
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

    def discovery(self, path: str) -> Document | None:
        """Return the discovery document of a path, None for another path."""
        if path.count("/") > _DISCOVERY_DEPTH:
            return None
        if path == "/version":
            number = str(self._minor.number)
            return {
                "major": "1",
                "minor": number,
                "gitVersion": f"v{self._minor.release}",
                "emulationMinor": number,
            }
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


def _group(name: str, versions: list[str]) -> Document:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}
