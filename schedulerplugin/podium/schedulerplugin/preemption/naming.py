"""Names the objects in a plan: by name, or for a tenant's report other namespaces' objects by UID only.

Names cannot be removed reliably from a finished sentence, because a name may be any word. So the code that
writes a sentence is given a function that names things, and identities are veiled as values. Nodes and
classes belong to the cluster and keep their names.
"""

from collections.abc import Callable

import msgspec

from podium.api.core import Pod, PodDisruptionBudget
from podium.api.groups import PodGroup
from podium.api.membership import GroupKey
from podium.findings import Finding, ObjectRef
from podium.schedulerplugin.preemption.outcome import Placed, Plan, UnitPod, UnitVerdict
from podium.view import View

# Returns the words for an object of a kind (Pod, PodGroup, PodDisruptionBudget), namespace and name.
Said = Callable[[str, str, str], str]

NO_UID = "(no UID)"
_UNTOLD = "Something of it cannot be taken as it stands."

_Named = Pod | PodGroup | PodDisruptionBudget


def plainly(kind: str, namespace: str, name: str) -> str:  # noqa: ARG001 - a Said takes it
    """Return the plain name of an object: `namespace/name`."""
    return f"{namespace}/{name}"


class Veil:
    """Names objects for one tenant: its own objects by name, those of other namespaces by UID."""

    def __init__(self, view: View, tenant: str) -> None:
        self._view = view
        self.tenant = tenant

    def said(self, kind: str, namespace: str, name: str) -> str:
        """Return the words for an object in a sentence (a Said)."""
        return f"{namespace}/{name}" if namespace == self.tenant else self.uid(kind, namespace, name)

    def uid(self, kind: str, namespace: str, name: str) -> str:
        """Return an object's UID, or words for none: manifests that never were on a server have none."""
        found = self._find(kind, namespace, name)
        return (found.metadata.uid if found is not None else None) or NO_UID

    def plan(self, plan: Plan) -> Plan:
        """Return a plan with veiled identities; its sentences must be written with `said`."""
        return msgspec.structs.replace(
            plan,
            placements=tuple(map(self._placed, plan.placements)),
            victims=tuple(map(self.unit, plan.victims)),
            spared=tuple(map(self.unit, plan.spared)),
            findings=tuple(map(self.finding, plan.findings)),
        )

    def unit(self, unit: UnitVerdict) -> UnitVerdict:
        """Return a unit with its pods, veiled if it is in another namespace."""
        if unit.namespace == self.tenant:
            return unit
        pods = tuple(UnitPod(self.uid("Pod", unit.namespace, pod.name), pod.node) for pod in unit.pods)
        name = self.uid(unit.kind, unit.namespace, unit.name)
        return msgspec.structs.replace(unit, namespace="", name=name, pods=pods)

    def finding(self, finding: Finding) -> Finding:
        """Return a finding with its object and quotes veiled; one without a namespace is the cluster's."""
        ref = finding.object
        if ref.namespace in ("", self.tenant):
            return finding
        veiled = ObjectRef(ref.apiVersion, ref.kind, "", self.uid(ref.kind, ref.namespace, ref.name))
        # A finding quotes the wrong value, which may be a label or any other text of another tenant.
        return msgspec.structs.replace(finding, object=veiled, field="", message=_UNTOLD)

    def _placed(self, placed: Placed) -> Placed:
        namespace, _, name = placed.pod.partition("/")
        return Placed(self.said("Pod", namespace, name), placed.node)

    def _find(self, kind: str, namespace: str, name: str) -> _Named | None:
        view = self._view
        match kind:
            case "Pod":
                return view.pods.get((namespace, name))
            case "PodGroup":
                ours = view.groups.get(GroupKey(native=False, namespace=namespace, name=name))
                return view.groups.get(GroupKey(native=True, namespace=namespace, name=name)) or ours
            case "PodDisruptionBudget":
                return view.budgets.get((namespace, name))
            case _:
                return None
