"""Why no node takes a pod, as a value, and in the words of kube-scheduler."""

from typing import NamedTuple

from podium.text import count


class Refusals(NamedTuple):
    """Why no node takes a pod: each reason with how many of `nodes` it refused, and the first few by name.

    Each node is refused by one filter, and counts for each reason of that filter. The order is that of the
    message. `pod` is why the pod was refused before any node was checked, empty if it was not. `claims` are
    the delayed claims that refuse nodes, each with their number, whatever other filters say. `domains` begins
    the message of a group with a topology constraint, whose nodes are those of one domain.
    """

    nodes: int
    reasons: tuple[tuple[str, int, tuple[str, ...]], ...]
    pod: str = ""
    claims: tuple[tuple[str, int], ...] = ()
    domains: str = ""

    @property
    def about_claims(self) -> str:
        """A sentence that names the claims without a volume, empty if there are none."""
        if not self.claims:
            return ""
        (first, nodes), *others = sorted(self.claims, key=lambda each: -each[1])
        more = f", and {count(len(others), 'other claim')} on some" if others else ""
        return f"Claim {first} finds no volume on {count(nodes, 'node')}{more}."

    @property
    def message(self) -> str:
        """The sentence of kube-scheduler."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        refusal = self.pod or ", ".join(map(counted_reason, self.reasons))
        return f"{self.domains}0/{self.nodes} nodes are available: {refusal}."


def counted_reason(reason: tuple[str, int, tuple[str, ...]]) -> str:
    """Return a reason as the message has it: `3 Insufficient cpu`."""
    return f"{reason[1]} {reason[0]}"
