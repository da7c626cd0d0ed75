"""Checks of the API server: its version, its clock, and which of the groups' APIs it serves."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from podium.api.groups import NATIVE_GROUP
from podium.api.minors import GROUP_MINORS, MINORS, minor_of, named
from podium.api.reads import READS
from podium.minors.minor import WORKLOAD_API
from podium.ops.doctor.check import APPLY, DoctorCheck, note, ok, problem, warning
from podium.ops.doctor.facts import DEFINITIONS, GROUPS, ClusterFacts, Document, lasting, unseen
from podium.text import listed

# Certificates are valid from an hour earlier, but minimum run times and preemption delays use the clock.
_APART_SECONDS = 10.0


class Minimum(NamedTuple):
    """The first minor of Kubernetes on which a mode works, and what the minor before lacks."""

    mode: str
    minor: int
    because: str


# The schemas of the custom resources validate names by CEL's `format` library, which API servers know since
# 1.31 and accept in new expressions since 1.32. All else is older: match conditions of webhooks and
# ValidatingAdmissionPolicies are stable since 1.30, optional types in CEL accepted since 1.29.
MINIMA = (
    Minimum("the command line", 21, "policy/v1"),
    Minimum("admission and reconciler", 32, "the CEL format library in the schemas"),
    Minimum("the scheduler", 32, "the same, for PreemptionRecords"),
)


def lacking(minima: Iterable[Minimum]) -> str:
    """Return a sentence on what needs which minor, and for which reason."""
    return listed([f"{minimum.mode} needs 1.{minimum.minor} ({minimum.because})" for minimum in minima])


def version(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the server's version against the minimum of each mode and the rules' range."""
    minor = minor_of(facts.version)
    needs = listed([f"1.{minimum.minor} for {minimum.mode}" for minimum in MINIMA])
    if minor is None:
        fact = f"the server's version {facts.version or '(none)'} is not a version of Kubernetes"
        yield note("server-version", fact, f"required: {needs}")
        return
    short = [minimum for minimum in MINIMA if minor < minimum.minor]
    if short:
        check = problem if facts.processes or facts.registered else warning
        fix = "upgrade the cluster" if MINIMA[0] in short else "use the command line, or upgrade first"
        yield check("server-version", f"Kubernetes {facts.version}: {lacking(short)}", fix)
        return
    yield ok("server-version", f"Kubernetes {facts.version}; required: {needs}")
    newest = max(MINORS)
    if minor in MINORS and MINORS[minor].prerelease:
        fact = f"podium {facts.cli} knows Kubernetes {named(minor)} from {MINORS[minor].release}"
        yield note("server-version", fact, "upgrade podium after the release of this minor")
    if minor > newest:
        fact = f"Kubernetes 1.{minor} is newer than the newest that podium {facts.cli} supports: 1.{newest}"
        yield note("server-version", fact, "upgrade podium; until then it uses the rules of that minor")


def clock(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of our clock against the server's."""
    ours, theirs = facts.clock
    if theirs is None:
        yield note("clock", "the server's answer has no time")
        return
    apart = (ours - theirs).total_seconds()
    if abs(apart) < _APART_SECONDS:
        yield ok("clock", "this machine's clock and the API server's agree")
        return
    which = "ahead of" if apart > 0 else "behind"
    fact = f"this machine's clock is {lasting(abs(ours - theirs))} {which} the API server's"
    yield warning("clock", fact, "synchronize the clocks by NTP")


def workload_api(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of whether groups are served natively, which shows the API server's feature gate."""
    name = "workload-api"
    if (unread := facts.unread(GROUPS, *native_paths(facts))) is not None:
        yield unseen(name, "the API groups were", unread)
        return
    versions = native_versions(facts)
    readable = [native for native in versions if (native, "PodGroup") in READS]
    if readable:
        fact = (
            f"served natively as {listed(readable)}: {WORKLOAD_API} is on in the API server; the "
            "gates and profiles of kube-scheduler are not visible"
        )
        yield ok(name, fact)
    elif versions:
        fact = f"PodGroup is served only as {listed(versions)}, which this version of podium does not read"
        yield warning(name, fact, "upgrade podium")
    else:
        fact = (
            f"PodGroup is not served natively: the gate {WORKLOAD_API} or the API version is off; "
            "pods' spec.schedulingGroup is dropped"
        )
        fix = "use Podium's own groups, by the label scheduling.podium.dev/pod-group"
        yield note(name, fact, f"{fix}{_serving(minor_of(facts.version))}")


def _serving(minor: int | None) -> str:
    """Return the end of a fix: the flags with which a minor serves the native API, if it has it."""
    known = GROUP_MINORS.get(minor or 0)
    if known is None:
        return ""
    gates = ",".join(f"{gate}=true" for gate in known.workload_gates)
    served = f"{NATIVE_GROUP}/{known.versions('PodGroup')[0]}=true"
    return f"; or set --feature-gates={gates} and --runtime-config={served}"


def native_versions(facts: ClusterFacts) -> list[str]:
    """Return the API versions in which PodGroups are served natively."""
    return [
        path.removeprefix(f"{GROUPS}/")
        for path in native_paths(facts)
        if any(
            resource["kind"] == "PodGroup" for resource in (facts.document(path) or {}).get("resources") or ()
        )
    ]


def native_paths(facts: ClusterFacts) -> list[str]:
    """Return the paths that list the resources of each version of the native group."""
    group = facts.groups.get(NATIVE_GROUP, {"versions": []})
    return [f"{GROUPS}/{native['groupVersion']}" for native in group["versions"]]


def custom_resources(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the definitions of Podium's own kinds."""
    name = "custom-resources"
    definitions = facts.installation.documents_of("CustomResourceDefinition")
    paths = {
        definition["metadata"]["name"]: f"{DEFINITIONS}/{definition['metadata']['name']}"
        for definition in definitions
    }
    if (unread := facts.unread(*paths.values())) is not None:
        yield unseen(name, "the custom resources were", unread)
        return
    existing = {
        definition_name: document
        for definition_name, path in paths.items()
        if (document := facts.document(path))
    }
    if not existing and not facts.processes:
        return  # `installed` reports it.
    well = True
    for definition in definitions:
        for check in _definition(definition, existing.get(definition["metadata"]["name"])):
            well = False
            yield check
    if well:
        yield ok(name, f"{listed(list(existing))}: established, stored as v1beta1")


def _definition(expected: Document, existing: Document | None) -> Iterator[DoctorCheck]:
    name, title = "custom-resources", expected["metadata"]["name"]
    if existing is None:
        yield problem(name, f"{title} does not exist", APPLY)
        return
    status = existing.get("status") or {}
    for condition in ("NamesAccepted", "Established"):
        state = next((entry for entry in status.get("conditions") or () if entry["type"] == condition), None)
        if state is None or state["status"] != "True":
            why = (state or {}).get("message") or "the server has not processed it yet"
            fix = f"kubectl describe customresourcedefinition {title}"
            yield problem(name, f"{title} is not served: {condition}: {why}", fix)
            return
    stored = status.get("storedVersions") or []
    storage = [
        served_version["name"] for served_version in expected["spec"]["versions"] if served_version["storage"]
    ]
    if stored != storage:
        fact = f"{title} has objects stored as {listed(stored)}; the storage version is {listed(storage)}"
        fix = (
            "rewrite each object (kubectl replace), then remove the other versions from status.storedVersions"
        )
        yield warning(name, fact, fix)
    served = {
        served_version["name"] for served_version in existing["spec"]["versions"] if served_version["served"]
    }
    missing = [
        served_version["name"]
        for served_version in expected["spec"]["versions"]
        if served_version["name"] not in served
    ]
    if missing:
        fact = f"{title} does not serve {listed(missing)}, as after `podium manifests crds` without a webhook"
        yield note(name, fact, f"{APPLY}, if clients need that version")
