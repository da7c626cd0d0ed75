"""The webhook configurations, generated from the targets of the rules, and the stage of a registration.

There is one entry for each family, because the objects of a family share a failure policy. Podium's own kinds
fail closed, because only Podium uses them. Pods and native kinds fail open, because every user needs them.
Their entries skip system namespaces and podium-system. They match only objects that a rule may reject, and
pods that ask for a gang in a namespace that allows it. A disabled rule matches nothing. No entry matches
deletions, status (except for the label guard), or updates of objects being deleted.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from podium.api.convert import VERSIONS
from podium.api.core import MIRROR, PODIUM_SCHEDULER
from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP, PODIUM_GROUP
from podium.groups import autogroups
from podium.kube.deployment import DeploymentState
from podium.rules import gang, podiumchecks, podiumrules
from podium.rules.admission import KINDS
from podium.rules.context import Operation
from podium.rules.podiumrule import AdmissionPhase, OwnRule, WriteTarget
from podium.rules.policy import Policy, RuleLevel
from podium.rules.webhook import PARITY
from podium.webhooks import cel

CONFIGURATION = "podium"
LABELS = {
    "app.kubernetes.io/name": "podium",
    "app.kubernetes.io/component": "webhook",
    "app.kubernetes.io/part-of": "podium",
}
NAMESPACE = "podium-system"
SERVICE = "podium-webhook"
CONVERT = "/convert"
_DOMAIN = ".podium.dev"

# The phases in each kind of configuration.
_KINDS = {
    "MutatingWebhookConfiguration": (
        AdmissionPhase.MUTATE,
        AdmissionPhase.GANG,
        AdmissionPhase.SCHEDULED_GANG,
    ),
    "ValidatingWebhookConfiguration": (AdmissionPhase.VALIDATE,),
}
_GANGS = (AdmissionPhase.GANG, AdmissionPhase.SCHEDULED_GANG)


class Family(StrEnum):
    """Objects that share a failure policy; the value is the name on the command line.

    An API server calls webhooks in this order, so a pod that joined a gang is then a member of a group.
    """

    PODIUM = "podium"
    GANGS = "gangs"
    PODS = "pods"
    NATIVE = "native"

    @property
    def domain(self) -> str:
        """Return the name of the family's webhook, which users read in refusals."""
        names = {self.PODIUM: "groups", self.GANGS: "gangs", self.PODS: "pods", self.NATIVE: "native-groups"}
        return f"{names[self]}{_DOMAIN}"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the webhook: `https://host:port`, or a Service's namespace and name (port 443)."""

    url: str | None = None
    service: tuple[str, str] | None = None

    def client(self, path: str, bundle: bytes | None) -> dict[str, Any]:
        """Return the clientConfig for a path. Without a bundle (PEM) another program sets the caBundle."""
        where: dict[str, Any]
        if self.service is not None:
            namespace, name = self.service
            where = {"service": {"namespace": namespace, "name": name, "path": path, "port": 443}}
        else:
            where = {"url": f"{self.url}{path}"}
        return where if bundle is None else {**where, "caBundle": base64.b64encode(bundle).decode()}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an installation.

    `failure` is `Fail` or `Ignore` by family; the default is Fail for Podium's kinds and Ignore for the
    others. Pods and native kinds in the `exempt` namespaces are not reviewed. `binder` is the namespace and
    name of a service account that may bind only pods of Podium's scheduler.
    """

    failure: Mapping[str, str] = {}
    binder: tuple[str, str] | None = None
    exempt: tuple[str, ...] = ("kube-system", "kube-node-lease", NAMESPACE)
    timeout_seconds: int = 3

    def failure_policy(self, family: Family) -> str:
        """Return the failurePolicy of a family."""
        return self.failure.get(family, "Fail" if family is Family.PODIUM else "Ignore")

    def selector(self, family: Family, endpoint: Endpoint | None = None) -> dict[str, Any]:
        """Return the namespaceSelector of a family; empty for Podium's kinds."""
        if family is Family.PODIUM:
            return {}
        ours = endpoint.service[:1] if endpoint is not None and endpoint.service is not None else ()
        values = list(dict.fromkeys((*self.exempt, *ours)))
        return {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}
            ]
        }


def active(policy: Policy, family: Family) -> Mapping[str, RuleLevel]:
    """Return Podium's own rules that may report something in a family, as levels by rule id."""
    native = family is not Family.PODIUM
    levels = {}
    for rule in podiumrules.OWN_RULES:
        rule_id = rule.cause.rule.id
        level = policy.level(rule_id, native=native, default=rule.native if native else rule.podium)
        if level is not RuleLevel.OFF and _can_report(rule, policy, family):
            levels[rule_id] = level
    return levels


def _can_report(rule: OwnRule, policy: Policy, family: Family) -> bool:
    """Return whether an enabled rule may report something about these kinds."""
    if rule is podiumrules.CLASS_ALLOWED:
        return any((item.pods if family is Family.PODS else item.groups) is not None for item in policy.allow)
    return rule is not podiumrules.NAME_LENGTH or family is Family.PODIUM


def targets(rule: OwnRule, family: Family, phase: AdmissionPhase) -> list[WriteTarget]:
    """Return the targets of an own rule in a family."""
    return [target for target in rule.on if target.phase is phase and _concerns(target, family)]


def _concerns(target: WriteTarget, family: Family) -> bool:
    if target.phase in _GANGS:
        return family is Family.GANGS
    return family is Family.PODS if target.kind == "Pod" else family in (Family.PODIUM, Family.NATIVE)


def resource_rules(family: Family, asked: Iterable[WriteTarget]) -> list[dict[str, Any]]:
    """Return the rules of a webhook or policy that match these targets, in every version of the family."""
    operations: dict[str, set[Operation]] = {}
    for target in asked:
        plural = KINDS[target.kind].plural
        resource = f"{plural}/{target.subresource}" if target.subresource else plural
        operations.setdefault(resource, set()).add(target.operation)
    resources: dict[tuple[str, ...], list[str]] = {}
    for resource, matched in sorted(operations.items()):
        resources.setdefault(tuple(sorted(matched)), []).append(resource)
    return [
        {
            "apiGroups": [group(family)],
            "apiVersions": versions(family),
            "operations": [str(operation) for operation in matched],
            "resources": names,
            "scope": "Namespaced",
        }
        for matched, names in sorted(resources.items())
    ]


def group(family: Family) -> str:
    """Return the API group of a family."""
    return {Family.PODIUM: PODIUM_GROUP, Family.NATIVE: NATIVE_GROUP}.get(family, "")


def versions(family: Family) -> list[str]:
    """Return every version that any server serves; unknown versions are harmless in a registration."""
    if family in (Family.GANGS, Family.PODS):
        return ["v1"]
    return sorted(version.partition("/")[2] for version in VERSIONS if group_of(version) == group(family))


def condition(name: str, expression: str) -> dict[str, str]:
    """Return one match condition; all conditions of an entry must be true."""
    return {"name": name, "expression": expression}


def configurations(
    policy: Policy, endpoint: Endpoint, options: Options, bundle: bytes | None
) -> list[dict[str, Any]]:
    """Return the mutating and the validating configuration; `bundle` is the PEM of the trusted CAs."""
    return [
        {
            **empty,
            "webhooks": [
                {
                    "name": f"scheduled-{family.domain}"
                    if phase is AdmissionPhase.SCHEDULED_GANG
                    else family.domain,
                    "clientConfig": endpoint.client(f"/{phase}", bundle),
                    "namespaceSelector": _selector(options, endpoint, family, phase),
                    "objectSelector": {},
                    "rules": resource_rules(family, asked),
                    "matchConditions": _conditions(policy, family, phase),
                    "matchPolicy": "Equivalent",
                    "failurePolicy": options.failure_policy(family),
                    **({} if phase is AdmissionPhase.VALIDATE else {"reinvocationPolicy": "IfNeeded"}),
                    "sideEffects": "None",
                    "timeoutSeconds": options.timeout_seconds,
                    "admissionReviewVersions": ["v1"],
                }
                for family in Family
                for phase in phases
                if (asked := _asked(policy, family, phase))
            ]
            + (_binds(endpoint, options, bundle) if AdmissionPhase.VALIDATE in phases else []),
        }
        for empty, phases in zip(empty_configurations(), _KINDS.values(), strict=True)
    ]


def empty_configurations() -> list[dict[str, Any]]:
    """Return the mutating and the validating configuration of the manifests, which have no webhooks."""
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": CONFIGURATION, "labels": LABELS},
        }
        for kind in _KINDS
    ]


def _binds(endpoint: Endpoint, options: Options, bundle: bytes | None) -> list[dict[str, Any]]:
    """Return the webhook of the binds of an account. Without an answer the account binds no pod."""
    if options.binder is None:
        return []
    user = "system:serviceaccount:" + ":".join(options.binder)
    return [
        {
            "name": f"binds{_DOMAIN}",
            "clientConfig": endpoint.client("/binding", bundle),
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods/binding"],
                    "scope": "Namespaced",
                }
            ],
            "matchConditions": [
                condition("account", f"request.userInfo.username == {msgspec.json.encode(user).decode()}")
            ],
            "matchPolicy": "Equivalent",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": options.timeout_seconds,
            "admissionReviewVersions": ["v1"],
        }
    ]


def is_ours(webhook: Mapping[str, Any]) -> bool:
    """Return whether an entry of a configuration has a name of Podium's."""
    return str(webhook["name"]).endswith(_DOMAIN)


class Stage(StrEnum):
    """The state in which a webhook keeps its registration.

    OFF has no webhooks. OPEN has all of them with failurePolicy Ignore, and CLOSED as the options say.
    Because the mutating webhook may be ignored, OPEN does not validate groups that were not mutated.
    """

    OFF = "off"
    OPEN = "open"
    CLOSED = "closed"

    def webhooks(self, configured: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the webhooks of this stage from those of `configurations`."""
        match self:
            case Stage.OFF:
                return []
            case Stage.OPEN:
                return [{**webhook, "failurePolicy": "Ignore", **_lenient(webhook)} for webhook in configured]
            case _:
                return list(configured)


def _lenient(webhook: dict[str, Any]) -> dict[str, Any]:
    """Return the match conditions of a webhook while the registration is open, if they differ."""
    validates = "reinvocationPolicy" not in webhook
    if not validates or webhook["name"] != Family.PODIUM.domain:
        return {}
    return {"matchConditions": [*webhook["matchConditions"], condition("mutated", cel.MUTATED)]}


def stage(
    deployment: DeploymentState | None, registered: Sequence[Mapping[str, Any]], bundle: bytes | None
) -> Stage:
    """Return the stage that follows from the webhooks that are registered now.

    A first registration is open until API servers trust the webhook and a replica is available: until then
    it must refuse no write. One that fails closed stays so: a rollout must not open it. Without a Deployment
    the webhook is never turned off. Without a bundle another program writes it.
    """
    if deployment is not None and deployment.is_off:
        return Stage.OFF
    ours = [webhook for webhook in registered if is_ours(webhook)]
    if any(
        webhook["name"] == Family.PODIUM.domain and webhook.get("failurePolicy") == "Fail" for webhook in ours
    ):
        return Stage.CLOSED
    bundles = [webhook["clientConfig"].get("caBundle") for webhook in ours]
    expected = None if bundle is None else base64.b64encode(bundle).decode()
    trusted = bool(bundles) and all(ca if expected is None else ca == expected for ca in bundles)
    available = deployment is None or deployment.is_available
    return Stage.CLOSED if trusted and available else Stage.OPEN


def _selector(options: Options, endpoint: Endpoint, family: Family, phase: AdmissionPhase) -> dict[str, Any]:
    """Return the namespaceSelector; for gangs, it selects the namespaces that allow them, by scheduler."""
    selector = options.selector(family, endpoint)
    if family is Family.GANGS:
        operator = "In" if phase is AdmissionPhase.SCHEDULED_GANG else "NotIn"
        selector["matchExpressions"] += [
            {"key": autogroups.NAMESPACE_LABEL, "operator": "In", "values": [autogroups.ENABLED]},
            {"key": autogroups.SCHEDULER_LABEL, "operator": operator, "values": [PODIUM_SCHEDULER]},
        ]
    return selector


def _asked(policy: Policy, family: Family, phase: AdmissionPhase) -> list[WriteTarget]:
    """Return the targets to match: of the API server's rules, gangs, tolerations and own rules."""
    always: dict[Family, tuple[WriteTarget, ...]] = {
        Family.PODIUM: PARITY,
        Family.GANGS: gang.TARGETS,
        Family.PODS: podiumchecks.TOLERATION_TARGETS if policy.reserved_nodes else (),
    }
    theirs = [target for target in always.get(family, ()) if target.phase is phase]
    return theirs + [target for _, target in _own(policy, family, phase)]


def _own(policy: Policy, family: Family, phase: AdmissionPhase) -> list[tuple[OwnRule, WriteTarget]]:
    levels = active(policy, family)
    return [
        (rule, target)
        for rule in podiumrules.OWN_RULES
        if (level := levels.get(rule.cause.rule.id)) is not None
        # An own rule mutates only at level inherit.
        and (phase is AdmissionPhase.VALIDATE or level is RuleLevel.INHERIT)
        for target in targets(rule, family, phase)
    ]


def _conditions(policy: Policy, family: Family, phase: AdmissionPhase) -> list[dict[str, str]]:
    """Return the match conditions. For pods they match only those that a rule may reject or change."""
    conditions = [condition("not-being-deleted", cel.NOT_BEING_DELETED)]
    if family is Family.PODS:
        concerns: dict[Operation, set[str]] = {operation: set() for operation in Operation}
        for rule, target in _own(policy, family, phase):
            concerns[target.operation].add(_concern(policy, rule, target))
        if policy.reserved_nodes and phase is AdmissionPhase.MUTATE:
            concerns[Operation.CREATE].add(f"({cel.INTOLERANT})")
        created, updated = (" || ".join(sorted(terms)) for terms in concerns.values())
        if created and updated:
            created = f'request.operation == "{Operation.CREATE}" ? {created} : {updated}'
        conditions.append(condition("a-rule-may-object", created or updated))
    if family is Family.NATIVE:
        changes = f'request.operation == "{Operation.CREATE}" || {cel.SAVING_CHANGES}'
        conditions.append(condition("a-rule-may-object", changes))
    if family is Family.GANGS:
        conditions.append(condition("asks-for-a-gang", cel.ASKS))
    if family in (Family.GANGS, Family.PODS) and phase is not AdmissionPhase.VALIDATE:
        # The kubelet compares a mirror pod with its static pod.
        mirror = f'!object.metadata.?annotations[?"{MIRROR}"].hasValue()'
        conditions.append(condition("not-a-mirror-pod", mirror))
    return conditions


def _concern(policy: Policy, rule: OwnRule, target: WriteTarget) -> str:
    """Return the CEL condition of the pods about which a rule may report something."""
    if rule is podiumrules.CLASS_ALLOWED:
        return f"!({cel.classes_allowed(policy.allow)})"
    if rule is podiumrules.SAVE_DECLARATION:
        return f"({cel.SAVING_CHANGES})"
    if target.operation is Operation.UPDATE:
        return f"({cel.LABEL_CHANGES})"
    return f"({cel.MEMBER})" if target.members else "true"
