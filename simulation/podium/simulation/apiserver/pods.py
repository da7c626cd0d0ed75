"""Pods: their defaults, the fields that an update may change, binding, and eviction under budgets."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from podium.api.meta import LabelSelector
from podium.api.selectors import selector_of
from podium.rules.pod import CHANGEABLE, CHANGEABLE_WHILE_GATED
from podium.simulation.apiserver.messages import ApiError, Document, conflict

# The defaults of a pod's spec and of a container.
_SPEC: Document = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
_CONTAINER: Document = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
# The plugin DefaultTolerationSeconds.
_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_GATED: Document = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_GATED_FIELDS = ("nodeSelector", "affinity")


def defaulted_spec(spec: Document) -> Document:
    """Return the spec of a pod, or of a template, with its defaults."""
    whole = {**_SPEC, **spec}
    for name in ("containers", "initContainers"):
        if whole.get(name) is None:
            whole.pop(name, None)
        else:
            whole[name] = [_container(container) for container in whole[name]]
    return whole


def _container(given: Document) -> Document:
    container = {**_CONTAINER, **given}
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if image and tag in ("", "latest") else "IfNotPresent")
    if ports := container.get("ports"):
        container["ports"] = [{"protocol": "TCP", **port} for port in ports]
    resources = container["resources"]
    if resources.get("limits"):
        container["resources"] = {
            **resources,
            "requests": {**resources["limits"], **(resources.get("requests") or {})},
        }
    return container


def tolerating(spec: Document) -> Document:
    """Return a spec that tolerates an unreachable node for five minutes, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _EVICTING_TAINTS:
        if not any(
            toleration.get("key", key) in (key, "")
            and toleration.get("effect", "NoExecute") in ("NoExecute", "")
            for toleration in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_SECONDS,
                }
            )
    return {**spec, "tolerations": tolerations}


def quality(spec: Mapping[str, Any]) -> str:
    """Return the QoS class."""
    containers = [*spec.get("containers", ()), *(spec.get("initContainers") or ())]
    amounts = [
        (
            (container["resources"].get("requests") or {}).get(name),
            (container["resources"].get("limits") or {}).get(name),
        )
        for container in containers
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for request, limit in amounts):
        return "BestEffort"
    return "Guaranteed" if all(request == limit for request, limit in amounts) else "Burstable"


def first_status(spec: Mapping[str, Any], time: str) -> Document:
    """Return the status of a new pod."""
    status: Document = {"phase": "Pending", "qosClass": quality(spec)}
    return with_condition(status, _GATED, time) if spec.get("schedulingGates") else status


def check_containers(new: Document, old: Document) -> None:
    """Raise ApiError (422) if an update adds or removes containers, or their images."""
    containers = new["spec"].get("containers") or ()
    errors = [
        f"spec.containers[{index}].image: Required value"
        for index, container in enumerate(containers)
        if not container.get("image")
    ]
    if len(containers) != len(old["spec"]["containers"]):
        errors = ["spec.containers: Forbidden: pod updates may not add or remove containers"]
    raise_invalid("Pod", new["metadata"]["name"], errors)


def check_update(new: Document, old: Document, *, lists_gated_fields: bool) -> None:
    """Raise ApiError (422) if an update changes more of the spec than it may."""
    spec, stored = new["spec"], old["spec"]
    errors: list[str] = []
    if stored.get("activeDeadlineSeconds") and not spec.get("activeDeadlineSeconds"):
        fault = "must not update from a positive integer to nil value"
        errors.append(f"spec.activeDeadlineSeconds: Invalid value: null: {fault}")
    gates = stored.get("schedulingGates") or ()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            errors.append(f"spec.schedulingGates[{index}].name: Forbidden: {detail}")
    tolerations = [_endless(toleration) for toleration in spec.get("tolerations") or ()]
    if any(_endless(toleration) not in tolerations for toleration in stored.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(f"spec.tolerations: Forbidden: {detail}")
    if _immutable(spec, gated=bool(gates)) != _immutable(stored, gated=bool(gates)):
        fields = CHANGEABLE + (CHANGEABLE_WHILE_GATED if lists_gated_fields else "")
        errors.append(f"spec: Forbidden: pod updates may not change fields other than {fields}\n")
    raise_invalid("Pod", new["metadata"]["name"], errors)


def raise_invalid(kind: str, name: str, errors: list[str]) -> None:
    """Raise ApiError (422) if there are errors."""
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}')


def _immutable(spec: Mapping[str, Any], *, gated: bool) -> Document:
    """Return the part of a spec that an update may not change."""
    left = {name: value for name, value in spec.items() if name not in ("tolerations", "schedulingGates")}
    for name in ("activeDeadlineSeconds", *(_GATED_FIELDS if gated else ())):
        left.pop(name, None)
    if left.get("terminationGracePeriodSeconds") == 1:
        left.pop("terminationGracePeriodSeconds")
    for name in ("containers", "initContainers"):
        left[name] = [{**container, "image": ""} for container in spec.get(name) or ()]
    return left


def _endless(toleration: Mapping[str, Any]) -> Document:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def bound(pod: Document, binding: Document, time: str) -> Document:
    """Return a pod after its binding. Raises ApiError for one that cannot be bound."""
    metadata, spec, name = pod["metadata"], pod["spec"], pod["metadata"]["name"]
    refused = ""
    if "deletionTimestamp" in metadata:
        refused = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        refused = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        refused = f"pod {name} has non-empty .spec.schedulingGates"
    if refused:
        raise conflict("pods/binding", name, refused)
    given = binding.get("metadata", {})
    merged = {
        part: {**(metadata.get(part) or {}), **(given.get(part) or {})} for part in ("annotations", "labels")
    }
    status = {key: value for key, value in pod["status"].items() if key != "nominatedNodeName"}
    return {
        **pod,
        "metadata": {**metadata, **{part: value for part, value in merged.items() if value}},
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": with_condition(status, {"type": "PodScheduled", "status": "True"}, time),
    }


def with_condition(status: Document, condition: Document, time: str) -> Document:
    """Return a pod's status with a condition; its transition time changes with its status only."""
    conditions = list(status.get("conditions") or ())
    for index, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            same = present["status"] == condition["status"]
            moved = present.get("lastTransitionTime") if same else time
            conditions[index] = {"lastProbeTime": None, "lastTransitionTime": moved, **condition}
            break
    else:
        conditions.append({"lastProbeTime": None, "lastTransitionTime": time, **condition})
    return {**status, "conditions": conditions}


def ignores_budgets(pod: Mapping[str, Any]) -> bool:
    """Return whether an eviction of the pod is a plain deletion."""
    phase = pod["status"].get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def charged(pod: Mapping[str, Any], budgets: Iterable[Document], time: str) -> tuple[Document | None, bool]:
    """Return the budget after an eviction, None if none pays, and whether the pod must be unchanged.

    Raises ApiError if a budget refuses.
    """
    matching = [budget for budget in budgets if _covers(budget, pod)]
    if len(matching) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise ApiError(500, "", text)
    if not matching:
        return None, False
    [budget] = matching
    status = budget["status"]
    ready = any(
        (condition["type"], condition["status"]) == ("Ready", "True")
        for condition in pod["status"].get("conditions") or ()
    )
    if not ready:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
            return None, True
    return _decremented(budget, pod["metadata"]["name"], time), False


def _covers(budget: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    selector = selector_of(msgspec.convert(budget["spec"].get("selector"), LabelSelector | None), {})
    return selector is not None and selector.matches(pod["metadata"].get("labels") or {})


def _decremented(budget: Document, pod: str, time: str) -> Document:
    name, status = budget["metadata"]["name"], budget["status"]
    allowed = status.get("disruptionsAllowed", 0)
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    refused, retry = "", 0
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        refused, retry = f"The disruption budget {name} is still being processed by the server.", 10
    elif allowed <= 0 and healthy <= desired:
        refused = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    elif allowed <= 0:
        refused = f"The disruption budget {name} does not allow evicting pods currently"
    if refused:
        text = "Cannot evict pod as it would violate the pod's disruption budget."
        cause = {"reason": "DisruptionBudget", "message": refused}
        raise ApiError(429, "TooManyRequests", text, causes=[cause], retry_seconds=retry)
    disrupted = {**status.get("disruptedPods", {}), pod: time}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}
