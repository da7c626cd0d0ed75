"""The answer of `whatif` as values: a plan with its basis, its cost, and its parts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podium.cluster.reader import ClusterReader
from podium.planner.preemption.outcome import Plan, WorkloadPlan
from podium.planner.semantics import Semantics

# The topology domains that are compared for one group, unless another number is asked for.
MOST_DOMAINS = 10


class ChosenSemantics(NamedTuple):
    """The semantics, how they were chosen, and the minor for the arithmetic.

    `approximates` is the scheduler that the plan is for, if its own rules are not known.
    """

    semantics: Semantics
    why: str
    minor: int
    approximates: str = ""


class Basis(NamedTuple):
    """The basis of an answer: the semantics and the time, each with how it was chosen, and the input.

    `unknown` lists the kinds that were not in the input, each with the reason. `settings` is a sentence with
    the settings and their source; empty for kube-scheduler's rules. `approximation` is a sentence on a
    scheduler whose rules are not known, or empty.
    """

    semantics: Semantics
    rules_why: str
    now: str
    now_why: str
    input: str
    unknown: Sequence[str] = ()
    settings: str = ""
    approximation: str = ""


class Most(NamedTuple):
    """The largest numbers of replicas that fit, without and with preemption."""

    without_preemption: int
    with_preemption: int


class WhatIf(NamedTuple):
    """A plan with the additional data for its reader.

    `preemptor` is a name in words. `held` are the accelerators of the victims, by resource. `workloads` are
    the parts of a plan for several preemptors, in the order of their plans; empty for one preemptor. `most`
    is the answer to `maximum`. `rules` are the semantics of the plans, each with how it was chosen. `drawn`
    is the plan with all its names and its cluster, for a picture that shows no name of a pod.
    """

    plan: Plan
    preemptor: str
    held: Mapping[str, int]
    basis: Basis
    workloads: Sequence[WorkloadPlan] = ()
    most: Most | None = None
    rules: Sequence[ChosenSemantics] = ()
    drawn: tuple[Plan, ClusterReader] | None = None
