"""The sets of preemption rules: a setting that docs/preemption-reference.md describes."""

from enum import StrEnum


class Semantics(StrEnum):
    """The rules in force: the spec's, a kube-scheduler release's, or plain pod preemption (gates off)."""

    KEP = "kep"
    V1_36 = "1.36"
    V1_37 = "1.37"
    PODS = "pods"

    @property
    def knows_trees(self) -> bool:
        """Whether composite groups count."""
        return self in (Semantics.KEP, Semantics.V1_37)
