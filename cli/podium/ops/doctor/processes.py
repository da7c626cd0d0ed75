"""Podium's own processes: whether they run, have one version, have a leader, and have fresh caches."""

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from podium.api.meta import instant
from podium.kube.reading import NamedUndecodable
from podium.ops.doctor.check import APPLY, DoctorCheck, note, ok, problem, warning
from podium.ops.doctor.facts import ClusterFacts, Document, lasting, policy_path, unseen
from podium.ops.rollout import Rollout, rollout
from podium.plugins import installed_plugins
from podium.text import count, listed, some

# The API server sends at least a bookmark to each cache every minute.
_STALE_SECONDS = 180.0
# Maximum number of objects that are listed by name.
_MOST_NAMED = 10
# The prefix of the answer of a process that is not ready (podium.runtime.health).
_NOT_READY = "not ready: "
# The times of a Lease are in parts of seconds or in whole seconds, and a write takes some time.
_APART = timedelta(seconds=5)
# A label on namespaces that limits the pods they accept.
_RESTRICTED = "pod-security.kubernetes.io/enforce"
_TAG = re.compile(r":([^:/@]+)(?:@|$)")


def installed(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the installed processes and their version."""
    name, place = "installed", facts.installation
    if (unread := facts.unread(place.deployments)) is not None:
        yield unseen(name, f"the Deployments of {place.namespace} were", unread)
        return
    if not facts.processes:
        fact = f"no process of Podium in {place.namespace}: only the command line is used"
        if facts.registered:
            fact = f"webhooks are registered, but no process of Podium is in {place.namespace}"
        fix = "docs/install.md: Helm, kubectl, Argo CD or Flux"
        yield note(name, fact, fix)
        return
    missing = [component for component in ("webhook", "controller") if component not in facts.processes]
    if missing:
        fact = f"no Deployment podium-{' and no podium-'.join(missing)} in {place.namespace}"
        yield problem(name, fact, APPLY)
    else:
        mode = "with the scheduler" if "scheduler" in facts.processes else "admission and reconciler"
        yield ok(name, f"installed in {place.namespace}: {mode}")
    yield from _versions(facts)
    yield from _releases(facts)
    yield from _namespace(facts)


def _versions(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the processes' image versions against each other and this command's version."""
    name = "versions"
    images = {
        component: deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        for component, deployment in facts.processes.items()
    }
    if len(set(images.values())) > 1:
        fact = listed([f"{component} runs {image}" for component, image in images.items()])
        yield warning(name, fact, "use the image of one version for all")
        return
    image = next(iter(images.values()))
    tag = _TAG.search(image)
    if tag is None or tag[1] != facts.cli:
        fact = f"the processes run {image}, this command is podium {facts.cli}"
        yield note(name, fact, "use the command of that version; these checks are of this version")
    else:
        yield ok(name, f"the processes and this command are podium {facts.cli}")


def _releases(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the Helm releases to which the processes belong."""
    name = "installed-by"
    releases: dict[str, list[str]] = defaultdict(list)
    for component, deployment in facts.processes.items():
        metadata = deployment["metadata"]
        ours = (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") == "Helm"
        release = (metadata.get("annotations") or {}).get("meta.helm.sh/release-name", "")
        releases[release if ours else ""].append(f"podium-{component}")
    owners = {
        f"Helm release {release}" if release else "no Helm release": listed(names)
        for release, names in releases.items()
    }
    if len(releases) > 1:
        fact = "; ".join(f"{names}: {owner}" for owner, names in owners.items())
        fix = "delete the Deployments that do not belong to the tool with which you upgrade, then upgrade"
        yield warning(name, f"the processes were installed in different ways: {fact}", fix)
    elif "" in releases:
        yield ok(name, "installed without Helm, so by server-side apply or GitOps")
    else:
        yield ok(name, f"{next(iter(owners))}: upgrade it by Helm")


def _namespace(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    there = facts.document(facts.installation.itself)
    if there is not None and (there["metadata"].get("labels") or {}).get(_RESTRICTED) != "restricted":
        namespace = facts.installation.namespace
        fact = f"namespace {namespace} does not enforce PodSecurity restricted, which Podium's pods satisfy"
        yield note("namespace", fact, f"kubectl label namespace {namespace} {_RESTRICTED}=restricted")


def deployments(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the replicas of each Deployment, and of its rollout."""
    place = facts.installation
    states = {component: _rollout(facts, deployment) for component, deployment in facts.processes.items()}
    for component, state in states.items():
        yield _deployment(facts, component, state)
    unread = facts.unread(place.replica_sets, place.pods_path, place.warnings)
    if unread is not None and any(state.lacks and not state.causes for state in states.values()):
        yield unseen("deployment", "the ReplicaSets, pods or Events of a rollout were", unread)


def _rollout(facts: ClusterFacts, deployment: Document) -> Rollout:
    place = facts.installation
    return rollout(
        deployment, facts.items(place.replica_sets), facts.items(place.pods_path), facts.items(place.warnings)
    )


def _deployment(facts: ClusterFacts, component: str, state: Rollout) -> DoctorCheck:
    """Return the check of one Deployment. If all its pods are available, some of them may still be old."""
    namespace, name = facts.installation.namespace, f"podium-{component}"
    deployment = facts.processes[component]
    replicas = deployment["spec"].get("replicas", 1)
    available = (deployment.get("status") or {}).get("availableReplicas", 0)
    title = f"Deployment {namespace}/{name}"
    why = f": {state.why}" if state.causes else ""
    if available < replicas:
        check = warning if available else problem
        fact = f"{title} has {available} of {replicas} pods available{why}"
        return check("deployment", fact, _look(namespace, component, state))
    if why:
        fact = f"{title} {state.lacks}, and its old pods still run{why}"
        return warning("deployment", fact, _look(namespace, component, state))
    if state.lacks:
        return note("deployment", f"{title} is being rolled out: it {state.lacks}", "run podium doctor again")
    fact = f"{title} has {available} of {replicas} pods available"
    if replicas > 1:
        return ok("deployment", fact)
    fix = f"kubectl -n {namespace} scale deployment {name} --replicas=2"
    check = warning if replicas else problem
    return check("deployment", f"{fact}: no other replica can take over", fix)


def _look(namespace: str, component: str, state: Rollout) -> str:
    """Return the command that shows more of a cause: the container's log if it has run, or the pods."""
    logs = [cause.log for cause in state.causes if cause.log is not None]
    if logs:
        return f"kubectl -n {namespace} logs {logs[0]}"
    return f"kubectl -n {namespace} describe pods -l app.kubernetes.io/component={component}"


def leases(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the leaders: the holder, whether it renews its Lease, and whether its clock is right.

    The API server records the time of a write to a Lease by its own clock; renewTime is by the holder's
    clock.
    """
    name = "leader"
    led = [process for process in ("controller", "scheduler") if process in facts.processes]
    if not led:
        return
    if (unread := facts.unread(facts.installation.leases)) is not None:
        yield unseen(name, "the Leases were", unread)
        return
    by_name = {stored["metadata"]["name"]: stored for stored in facts.items(facts.installation.leases)}
    for component in led:
        title = f"podium-{component}"
        logs = f"kubectl -n {facts.installation.namespace} logs deployment/{title}: see `lease not reached`"
        lease = by_name.get(title)
        holder = (lease or {}).get("spec", {}).get("holderIdentity")
        if lease is None or not holder:
            yield problem(name, f"no leader: Lease {title} has no holder", logs)
            continue
        yield from _leader(facts, title, lease, logs)


def _leader(facts: ClusterFacts, title: str, lease: Document, logs: str) -> Iterator[DoctorCheck]:
    spec = lease["spec"]
    noted = _noted(lease)
    renewed = instant(spec["renewTime"]) if spec.get("renewTime") else noted
    age = facts.clock.now - (noted or renewed or facts.clock.now)
    holder = f"{spec['holderIdentity']} holds Lease {title}"
    lasts = timedelta(seconds=spec.get("leaseDurationSeconds", 15))
    if age > lasts + _APART:
        fact = f"{spec['holderIdentity']} held Lease {title}, and has not renewed it for {lasting(age)}"
        yield problem("leader", f"{fact}: no leader", logs)
        return
    yield ok("leader", f"{holder}, renewed {lasting(age)} ago")
    apart = renewed - noted if renewed is not None and noted is not None else timedelta()
    if abs(apart) > _APART:
        which = "ahead of" if apart > timedelta() else "behind"
        fact = f"the clock of {spec['holderIdentity']} is {lasting(abs(apart))} {which} the API server's"
        yield warning("clock", fact, "synchronize the clock of its node by NTP")


def _noted(lease: Document) -> datetime | None:
    """Return when the API server last recorded a write to a Lease's spec, in whole seconds."""
    times = [
        instant(entry["time"])
        for entry in lease["metadata"].get("managedFields") or ()
        if "time" in entry and "f:spec" in (entry.get("fieldsV1") or {})
    ]
    return max(times, default=None)


def probes(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the probes of each process, as far as the API server can reach it."""
    namespace = facts.installation.namespace
    silent: dict[str, list[str]] = defaultdict(list)
    for pod, probe in sorted(facts.probes.items()):
        logs = f"kubectl -n {namespace} logs {pod}"
        old = {resource: age for resource, age in probe.ages.items() if age > _STALE_SECONDS}
        if old:
            worst = lasting(timedelta(seconds=max(old.values())))
            fact = f"{pod} has no update of {some(old)} for up to {worst}"
            yield problem("cache", fact, f"{logs}: see `watch failed`")
        if isinstance(probe.ready, dict):
            known = f", {count(len(probe.ages), 'cache')} fresh" if probe.ages and not old else ""
            yield ok("process", f"{pod} is ready{known}")
        elif probe.ready.why.startswith(_NOT_READY):
            yield problem("process", f"{pod} reports: {probe.ready.why}", logs)
        else:
            silent[probe.ready.why].append(pod)
    for why, pods in silent.items():
        fact = f"{some(pods)} {'was' if len(pods) == 1 else 'were'} not reached: {why}"
        forward = f"kubectl -n {namespace} port-forward pod/{pods[0]} 9000:metrics"
        yield note("process", fact, f"{forward}, and curl localhost:9000/readyz")


def undecodable(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the objects that a process cannot decode."""
    pods: dict[NamedUndecodable, list[str]] = defaultdict(list)
    for pod, probe in sorted(facts.probes.items()):
        for named in probe.undecodable:
            pods[named].append(pod)
    for named, by in list(pods.items())[:_MOST_NAMED]:
        name = f"{named.namespace}/{named.name}" if named.namespace else named.name
        fact = f"{some(by)} cannot decode {named.resource} {name}: {named.error}"
        place = f"-n {named.namespace} " if named.namespace else ""
        get = f"kubectl {place}get {named.resource} {named.name} -o json"
        fix = f"{get} shows it. Correct or delete it; until then its last known state is used"
        yield warning("undecodable", fact, fix)
    if len(pods) > _MOST_NAMED:
        fact = f"{count(len(pods) - _MOST_NAMED, 'more object')} cannot be decoded"
        yield warning("undecodable", fact, "see the logs at `object not decodable`")
    ready = [pod for pod, probe in facts.probes.items() if isinstance(probe.ready, dict)]
    if ready and not pods:
        yield ok("undecodable", f"every object can be decoded by {some(ready)}")


def preemption(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the scheduler's preemption mode."""
    if "scheduler" not in facts.processes:
        return
    settings = facts.installation.settings
    if (unread := facts.unread(settings)) is not None:
        yield unseen("preemption", "the scheduler's settings were", unread)
    elif facts.scheduler:
        mode = facts.scheduler.get("preemption", "enforce")
        # A YAML reader turns `off` into a boolean.
        mode = "off" if mode is False else mode
        limit = facts.scheduler.get("evictionsPerMinute")
        rate = f"at most {limit} evictions a minute" if limit else "without a limit"
        effects = {"enforce": f"evicts, {rate}", "observe": "plans and records, evicts no pod"}
        fact = f"preemption: {mode}; podium-scheduler {effects.get(mode, 'evicts no pod')}"
        unlimited = mode == "enforce" and not limit
        if unlimited:
            yield warning("preemption", fact, "set evictionsPerMinute in ConfigMap podium-scheduler")
        else:
            yield ok("preemption", fact)


def plugins(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the plugins that are installed here, and of those that the scheduler uses."""
    used = [str(name) for name in facts.scheduler.get("plugins") or ()]
    versions = {name: entry.dist and entry.dist.version for name, entry in installed_plugins().items()}
    if used or versions:
        here = some(f"{name} {version or ''}".rstrip() for name, version in versions.items()) or "none"
        yield ok("plugins", f"installed here: {here}; podium-scheduler uses {some(used) or 'none'}")
    if missing := [name for name in used if name not in versions]:
        fact = f"podium-scheduler uses {some(missing)}, not installed here: whatif and why plan without"
        yield note("plugins", fact, "install the same version here (docs/plugins.md)")


def policies(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of whether the API server limits each account to the writes of its process."""
    for process in facts.processes:
        ours = [policy for policy in facts.installation.policies if policy.startswith(f"podium-{process}-")]
        missing = [policy for policy in ours if facts.document(policy_path(policy)) is None]
        if (unread := facts.unread(*map(policy_path, ours))) is not None:
            yield unseen("policies", f"the policies of podium-{process} were", unread)
        elif missing:
            fact = f"podium-{process} is not restricted by ValidatingAdmissionPolicy {some(missing)}"
            yield warning("policies", fact, APPLY)
        elif ours:
            yield ok("policies", f"podium-{process} is restricted by {some(ours)}")
