"""Why no node takes a pod, as a value, and in the words of kube-scheduler."""

from typing import NamedTuple

from podium.planner.shapes import Shape


class Unmet(NamedTuple):
    """The reasons that keep a pod from nodes whatever is preempted; both are empty without such a reason.

    `first` precedes all other reasons, and `aside` follows them. `everywhere` says that no node is left for
    which a preemption could help.
    """

    first: str = ""
    aside: str = ""
    everywhere: bool = False


class Refusals(NamedTuple):
    """Why no node takes a pod: each reason with how many of `nodes` it refused, and the first few by name.

    Each node is refused by one filter, and counts for each reason of that filter. Reasons that no preemption
    changes come first. `pod` is why a pod of the `shape` was refused before any node was checked, empty if it
    was not. `remark` is a sentence that explains reasons, such as which claim finds no volume. `domains`
    begins the sentence of a group with a topology constraint, whose nodes are those of one domain, and
    `members` says how many members have room. `unmet` is known for a refusal that is reported.
    """

    nodes: int
    reasons: tuple[tuple[str, int, tuple[str, ...]], ...]
    shape: Shape
    pod: str = ""
    remark: str = ""
    domains: str = ""
    members: str = ""
    unmet: Unmet = Unmet()

    @property
    def sentence(self) -> str:
        """The sentence of kube-scheduler, which sorts the reasons with their numbers as texts."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        refusal = self.pod or ", ".join(sorted(map(counted_reason, self.reasons)))
        return f"{self.domains}{self.members}0/{self.nodes} nodes are available: {refusal}."

    @property
    def message(self) -> str:
        """The sentence, and what no preemption changes."""
        return self.explained(self.sentence)

    def beside_members(self, number: int, needed: int, kind: str = "members") -> "Refusals":
        """Return the refusals of a member, with the number of the needed ones that have room."""
        have = f"{number:,} of {needed:,} {kind} {'has' if number == 1 else 'have'} room; "
        return self._replace(members=have if number else "")

    def ineligible(self, why: str) -> str:
        """Return the message for a pod that may not preempt, with the reason.

        The reason comes last if no preemption helps in any case.
        """
        if self.unmet.everywhere:
            return f"{self.message} {why}"
        return self.explained(f"{why.rstrip('.')}. {self.sentence}")

    def explained(self, sentence: str) -> str:
        """Return sentences on the refusal with what no preemption changes."""
        first = f"{self.unmet.first}; " if self.unmet.first else ""
        return f"{first}{sentence}{self.unmet.aside and f' {self.unmet.aside}.'}"


def counted_reason(reason: tuple[str, int, tuple[str, ...]]) -> str:
    """Return a reason as the message has it: `3 Insufficient cpu`."""
    return f"{reason[1]} {reason[0]}"
