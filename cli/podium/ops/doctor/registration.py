"""The path from API servers to the webhook: registration, trusted CAs, served certificate, and a trial.

A webhook configuration may be correct while the certificate is expired, or both correct without a pod behind
the Service. Each link is therefore checked by itself, and then all together. A dry run creates a group in the
version that is not stored; it is mutated, validated and converted, and leaves nothing behind.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from podium.errors import PodiumError
from podium.groups.autogroups import API_VERSION as STORED
from podium.ops.doctor.check import APPLY, DoctorCheck, note, ok, problem, warning
from podium.ops.doctor.facts import DEFINITIONS, REGISTRATIONS, ClusterFacts, Document, given, lasting, unseen
from podium.text import count, some
from podium.webhooks import certificates
from podium.webhooks.certificates import Facts as Certificate
from podium.webhooks.registration import is_ours

# Certificates are renewed long before this: ours with a third of thirty days left, cert-manager's with a
# third of ninety.
_SOON = timedelta(days=5)


def registrations(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the existing webhook configurations against those that the processes register."""
    name = "registration"
    if (unread := facts.unread(*REGISTRATIONS.values())) is not None:
        yield unseen(name, "the webhook configurations were", unread)
        return
    manifests = facts.installation.documents_of(*REGISTRATIONS)
    registered = {
        manifest["kind"]: ours for manifest in manifests if (ours := _there(facts, manifest)) is not None
    }
    checks = [
        check
        for manifest in manifests
        if manifest["kind"] in registered or facts.processes
        for check in _registration(facts, manifest, registered.get(manifest["kind"]))
    ]
    yield from checks
    if registered and facts.processes and not checks:
        number = sum(len(configuration["webhooks"]) for configuration in registered.values())
        yield ok(name, f"{number} webhooks are registered as this version does")


def _there(facts: ClusterFacts, manifest: Document) -> Document | None:
    name = manifest["metadata"]["name"]
    items = facts.items(REGISTRATIONS[manifest["kind"]])
    return next((item for item in items if item["metadata"]["name"] == name), None)


def _registration(
    facts: ClusterFacts, manifest: Document, registered: Document | None
) -> Iterator[DoctorCheck]:
    name, title = "registration", f"{manifest['kind']} {manifest['metadata']['name']}"
    if registered is None:
        yield problem(name, f"{title} does not exist: its webhooks are off", APPLY)
        return
    there = {webhook["name"]: webhook for webhook in registered.get("webhooks") or () if is_ours(webhook)}
    yield from _foreign(facts, title, there)
    if not facts.processes:
        return
    if not there:
        fact = f"{title} has no webhooks: the process registers them when it serves"
        yield problem(name, fact, _logs(facts))
        return
    meant = {webhook["name"]: webhook for webhook in manifest["webhooks"]}
    for kind, names in (("lacks", meant.keys() - there.keys()), ("also has", there.keys() - meant.keys())):
        if names:
            yield note(name, f"{title} {kind} {some(names)}, which options of the process can explain")
    both = sorted(meant.keys() & there.keys())
    sent = [key for key in both if _sent(meant[key]) != _sent(there[key])]
    if sent:
        fact = f"{title}: {some(sent)} has other rules than those of the ConfigMap podium-webhook"
        fix = f"kubectl -n {facts.installation.namespace} rollout restart deployment podium-webhook"
        yield note(name, fact, fix)
    for key in both:
        now, usual = there[key].get("failurePolicy", "Fail"), meant[key]["failurePolicy"]
        if now != usual:
            why = (
                "writes fail when no webhook answers"
                if now == "Fail"
                else "no object is validated then, as until a replica is available"
            )
            fact = f"{title}: {key} has failurePolicy {now}, the default is {usual}: {why}"
            yield warning(name, fact, f"{_logs(facts)}, unless --on-failure says so")


def _foreign(facts: ClusterFacts, title: str, there: Mapping[str, Document]) -> Iterator[DoctorCheck]:
    """Yield a check if another installation or a process by URL has registered the webhooks."""
    clients = [webhook["clientConfig"] for webhook in there.values()]
    urls = sorted({client["url"] for client in clients if client.get("url")})
    namespaces = {client["service"]["namespace"] for client in clients if client.get("service")}
    elsewhere = sorted(namespaces - {facts.installation.namespace})
    if urls:
        fact = f"{title} is registered at {some(urls)}, by a process with --register-url"
        yield warning("registration", fact, "stop that process, and delete the configuration")
    if elsewhere:
        fact = f"{title} is registered for a Service in {some(elsewhere)}, by another installation"
        yield problem("registration", fact, "remove that installation first")


def _sent(webhook: Document) -> list[Any]:
    """Return what is sent to a webhook."""
    return [webhook.get("rules"), webhook.get("matchConditions")]


def clients(facts: ClusterFacts) -> dict[str, Document]:
    """Return every clientConfig with which API servers call Podium, by a title of its object."""
    by_title: dict[str, Document] = {}
    for manifest in facts.installation.documents_of("CustomResourceDefinition"):
        title = manifest["metadata"]["name"]
        definition = facts.document(f"{DEFINITIONS}/{title}") or {"spec": {}}
        webhook = (definition["spec"].get("conversion") or {}).get("webhook")
        if webhook:
            by_title[f"the conversion of {title}"] = webhook["clientConfig"]
    for manifest in facts.installation.documents_of(*REGISTRATIONS):
        for registered in (_there(facts, manifest) or {}).get("webhooks") or ():
            kind = manifest["kind"].removesuffix("WebhookConfiguration")
            by_title[f"{registered['name']} ({kind})"] = registered["clientConfig"]
    return by_title


def trust(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield checks of the CAs that API servers trust, and of the certificate that is served."""
    configs = clients(facts)
    if not configs:
        return
    without = [title for title, client in configs.items() if not client.get("caBundle")]
    if without:
        fact = f"no caBundle in {some(without)}: API servers cannot call the webhook"
        fix = f"{_logs(facts)}: see `certificates not kept`; with cert-manager check cainjector"
        yield problem("ca-bundle", fact, fix)
    bundles = {title: client["caBundle"] for title, client in configs.items() if client.get("caBundle")}
    pem, check = _served(facts)
    yield check
    if bundles:
        yield from _trusting(facts, pem, bundles) if pem else _untrusting(facts, bundles)


def _served(facts: ClusterFacts) -> tuple[bytes, DoctorCheck]:
    """Return the served certificate in PEM (empty if it is unknown), and the check of it."""
    path = secret_path(facts)
    if not path:
        fact = "the served certificate is not known: no Deployment podium-webhook names it"
        return b"", note("certificate", fact, "check `trial`, which shows whether API servers trust it")
    if (unread := facts.unread(path)) is not None:
        return b"", unseen("certificate", "the certificate was", unread)
    data = (facts.document(path) or {}).get("data") or {}
    secret = f"Secret {facts.installation.namespace}/{path.rpartition('/')[2]}"
    if not data.get("tls.crt"):
        fact = (
            f"{secret} is empty: the webhook has not generated its certificate, or no certificate was issued"
        )
        return b"", problem("certificate", fact, _logs(facts))
    try:
        pem = _decoded(data["tls.crt"])
        return pem, _leaf(facts, secret, certificates.facts(pem))
    except PodiumError as error:
        return b"", problem("certificate", f"{secret}: tls.crt: {error}", _logs(facts))


def _leaf(facts: ClusterFacts, secret: str, leaf: Certificate) -> DoctorCheck:
    """Return a check of the served certificate without its issuer."""
    service = f"podium-webhook.{facts.installation.namespace}.svc"
    fact = dated(secret, leaf, facts.clock.now)
    if not certificates.covers(leaf.names, service):
        fact = f"{secret} is for {some(leaf.names) or 'no name'}, but API servers expect {service}"
        return problem("certificate", fact, "issue it for that name")
    if not leaf.start <= facts.clock.now < leaf.end:
        return problem("certificate", fact, f"{_logs(facts)}: a running webhook renews it")
    if leaf.end - facts.clock.now < _SOON:
        return warning("certificate", f"{fact}, and was not renewed", _logs(facts))
    return ok("certificate", fact)


def _trusting(facts: ClusterFacts, pem: bytes, bundles: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Yield checks of whether one of the API servers' CAs signed the served certificate."""
    fix = (
        f"{_logs(facts)}: the webhook writes the caBundle within seconds. If it does not, use "
        "kubectl rollout restart"
    )
    wrong: list[str] = []
    ends: dict[str, Certificate] = {}
    for title, bundle in bundles.items():
        try:
            ca = certificates.issuer(pem, _decoded(bundle))
        except PodiumError:
            ca = None
        if ca is None:
            wrong.append(title)
        else:
            ends[ca.fingerprint] = ca
    if wrong:
        fact = f"the caBundle of {some(wrong)} is not the CA of the served certificate"
        yield problem("ca-bundle", fact, fix)
    for ca in ends.values():
        fact = dated("the CA in the caBundle", ca, facts.clock.now)
        if not ca.start <= facts.clock.now < ca.end:
            yield problem("ca-bundle", fact, fix)
        elif not wrong:
            yield ok("ca-bundle", f"{len(bundles)} of {len(bundles)} trust the served certificate; {fact}")


def _untrusting(facts: ClusterFacts, bundles: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Yield checks of the API servers' CAs alone, if the served certificate is unknown."""
    expired: list[str] = []
    for title, bundle in bundles.items():
        try:
            if certificates.lasts(_decoded(bundle)) <= facts.clock.now:
                expired.append(title)
        except PodiumError:
            expired.append(title)
    if expired:
        fact = f"the caBundle of {some(expired)} has no valid CA"
        yield problem("ca-bundle", fact, _logs(facts))
    else:
        yield ok("ca-bundle", f"{len(bundles)} of {len(bundles)} have a CA that is valid")


def dated(subject: str, certificate: Certificate, now: datetime) -> str:
    """Return a sentence on how long a certificate is valid, or since when it is not."""
    start, end = certificate.start, certificate.end
    if now < start:
        return f"{subject} is not valid for another {lasting(start - now)}"
    if now >= end:
        return f"{subject} expired {lasting(now - end)} ago, at {end:%FT%TZ}"
    return f"{subject} is valid for another {lasting(end - now)}"


def secret_path(facts: ClusterFacts) -> str:
    """Return the path of the Secret with the served certificate; empty if that is unknown."""
    deployment = facts.processes.get("webhook")
    if deployment is None:
        return ""
    _, slash, name = given(deployment, "--cert-secret").partition("/")
    if not slash:
        volumes = deployment["spec"]["template"]["spec"].get("volumes") or ()
        name = next((volume["secret"]["secretName"] for volume in volumes if "secret" in volume), "")
    return facts.installation.within("v1", f"secrets/{name}") if name else ""


def endpoints(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the number of pods behind the Service that API servers call."""
    if not any("service" in client for client in clients(facts).values()):
        return
    for service in facts.installation.documents_of("Service"):
        title = service["metadata"]["name"]
        path = slices_path(facts.installation.namespace, title)
        if (unread := facts.unread(path)) is not None:
            yield unseen("endpoints", f"the endpoints of Service {title} were", unread)
            continue
        ready = ready_endpoints(facts.items(path))
        where = f"Service {facts.installation.namespace}/{title}"
        if ready:
            yield ok("endpoints", f"{where} has {count(ready, 'ready endpoint')}")
        else:
            fact = f"{where} has no ready endpoint: groups cannot be written"
            yield problem("endpoints", fact, f"kubectl -n {facts.installation.namespace} get pods")


def slices_path(namespace: str, service: str) -> str:
    """Return the path of a Service's EndpointSlices."""
    selected = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selected}"


def ready_endpoints(slices: list[Document]) -> int:
    """Return the number of ready endpoints; an unset condition counts as ready, as in kube-proxy."""
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint_slice in slices
        for endpoint in endpoint_slice.get("endpoints") or ()
    )


def trial(facts: ClusterFacts) -> Iterator[DoctorCheck]:
    """Yield a check of the result of the dry run."""
    name = "trial"
    if facts.trial is None:
        return
    version, answer = facts.trial
    attempt = f"a dry run of a group of {version.partition('/')[2]}"
    if isinstance(answer, dict):
        filled_in = bool(answer.get("spec", {}).get("disruptionMode"))
        if filled_in:
            done = "mutated and validated" if version == STORED else "mutated, validated and converted"
            yield ok(name, f"{attempt} was {done}")
        else:
            fact = f"{attempt} was accepted, but no webhook set its disruptionMode"
            if facts.registered:
                yield problem(name, fact, f"check `registration` and `endpoints`, then {_logs(facts)}")
            else:
                yield note(name, fact, APPLY)
    elif "admission webhook" in answer.why and " denied the request" in answer.why:
        yield ok(name, f"{attempt} was validated and refused by your policy: {answer.why}")
    elif answer.code in (401, 403):
        fix = "run podium doctor with an account that may create podgroups of scheduling.podium.dev"
        yield note(name, f"{attempt} was not possible: {answer.why}", fix)
    else:
        fix = f"check `ca-bundle`, `certificate` and `endpoints`, then {_logs(facts)}"
        yield problem(name, f"{attempt} failed: {answer.why}", fix)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise PodiumError("is not base64") from None


def _logs(facts: ClusterFacts) -> str:
    return f"kubectl -n {facts.installation.namespace} logs deployment/podium-webhook"
