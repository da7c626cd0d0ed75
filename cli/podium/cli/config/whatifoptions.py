"""The options of `podium whatif`, and which of them exclude each other."""

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from podium.answers.whatifreport import MOST_DOMAINS
from podium.cli import kubeoptions, naming, options
from podium.documents.scope import Scope
from podium.planner.semantics import Semantics
from podium.text import listed


class WhatIfOptions(NamedTuple):
    """The options of the query, as given."""

    add: str | None
    pod: str | None
    group: str | None
    victim: str | None
    defragment: str | None
    within: str | None
    everywhere: bool
    labels: str | None
    kind: str | None
    now: str | None
    semantics: str | None
    config: str | None
    plugins: tuple[str, ...]
    max_victims: int | None
    domains: int
    tenant: str | None
    replicas: int | None
    maximum: bool

    def check(self) -> None:
        """Raise click.UsageError for options that exclude each other."""
        given = sum(name is not None for name in (self.pod, self.group, self.victim))
        if given > 1:
            raise click.UsageError("--pod, --group and --victim exclude each other.")
        if self.defragment is not None:
            self._check_defragment()
        if self.within and self.everywhere:
            raise click.UsageError("-n and -A exclude each other.")
        if given and (self.everywhere or self.labels):
            raise click.UsageError("-A and -l exclude --pod, --group and --victim.")
        if self.pending is not None and self.add is not None:
            raise click.UsageError("--add excludes -n, -A and -l.")
        if self.kind is not None and self.victim is None:
            raise click.UsageError("--kind needs --victim.")
        if (self.replicas is not None or self.maximum) and self.add is None:
            raise click.UsageError("--replicas and --max need --add.")
        if self.replicas is not None and self.maximum:
            raise click.UsageError("--replicas and --max exclude each other.")

    def _check_defragment(self) -> None:
        """Raise click.UsageError for options that --defragment excludes: it is about all pods that run."""
        excluded = {
            "--add": self.add, "--pod": self.pod, "--group": self.group, "--victim": self.victim,
            "-n": self.within, "-A": self.everywhere, "-l": self.labels, "--semantics": self.semantics,
            "--max-victims": self.max_victims, "--tenant": self.tenant,
        }  # fmt: skip
        given = [name for name, value in excluded.items() if value not in (None, False)]
        if given:
            raise click.UsageError(f"--defragment excludes {listed(given)}.")
        if not self.domains:
            raise click.UsageError("--defragment needs --domains 1 or more.")

    @property
    def pending(self) -> Scope | None:
        """Return the scope of the pending pods to plan for, or None if the options name a target."""
        chosen = self.within or self.everywhere or self.labels
        if not chosen or self.pod or self.group or self.victim:
            return None
        return Scope(self.within or "", self.labels or "")


_OPTIONS = (
    click.option(
        "--add",
        metavar="FILE",
        help="File with objects to add to the cluster: pods, groups, or their workloads.",
    ),
    click.option("--pod", metavar="[NS/]NAME", help="Pending pod to plan for."),
    click.option("--group", metavar="[NS/]NAME", help="Pending PodGroup to plan for."),
    click.option(
        "--victim", metavar="[NS/]NAME", help="Running pod or PodGroup; shows which priority preempts it."
    ),
    click.option(
        "--defragment",
        metavar="KEY",
        help="Node label, such as topology.kubernetes.io/rack; shows the moves that free one of its domains.",
    ),
    kubeoptions.namespace_option(
        "Namespace of a NAME without one (default: the context's), or of the pending pods to plan for.",
        "within",
    ),
    kubeoptions.everywhere_option("Plan for all pending pods and groups.", "everywhere"),
    kubeoptions.selector_option(
        "Plan for the pending pods with these labels, and for their groups.", "labels"
    ),
    click.option(
        "--kind",
        type=naming.KindChoice(),
        help="Kind of --victim, if a pod and a PodGroup have the name.",
    ),
    click.option("--now", metavar="TIME", help="Time of the plan, such as 2026-01-31T12:00:00Z."),
    click.option(
        "--semantics",
        type=click.Choice([str(semantics) for semantics in Semantics]),
        help="Preemption rules: of the KEP, of a kube-scheduler release, or pod by pod.  [default: the "
        "cluster's version]",
    ),
    click.option(
        "--config", metavar="FILE", help="File with a WhatIfConfiguration (budgets, victims, divergence)."
    ),
    options.plugin_option,
    click.option(
        "--max-victims",
        type=click.IntRange(0),
        metavar="N",
        help="Maximum number of preempted pods; exit code 3 above it.",
    ),
    click.option(
        "--domains",
        type=click.IntRange(0),
        metavar="N",
        default=MOST_DOMAINS,
        show_default=True,
        help="Maximum number of topology domains to compare for a group with a topology constraint, or to "
        "list with --defragment.",
    ),
    click.option(
        "--tenant",
        metavar="NS",
        help="Namespace of the reader; objects of other namespaces are shown by UID only.",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1),
        metavar="N",
        help="Number of replicas of the workload of --add; the parallelism of a Job, or the number of pods.",
    ),
    click.option(
        "--max",
        "maximum",
        is_flag=True,
        help="Find the largest number of replicas of the workload of --add that fits.",
    ),
)


def whatif_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the query as one parameter, `options`."""
    return options.gathered(function, _OPTIONS, "options", WhatIfOptions)
