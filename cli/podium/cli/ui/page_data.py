"""The data of every page, from one reading of a cluster, computed as the commands do.

This module computes nothing that a command computes: waiting is `podium why`, a plan is `podium whatif`,
divergences are `podium audit`. Slow results are cached as long as the reading.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime

from podium.answers import audit, whatif, why
from podium.answers.accounts.answer import ProspectPlan, WhyAnswer, WhyQuery, account_input
from podium.answers.accounts.explain import explain_target, state_of
from podium.answers.accounts.model import RunState, Wait
from podium.answers.assumptions import Choices, by_scheduler, choose_rules, not_known
from podium.answers.audits.report import AuditReport
from podium.answers.schedulersettings import OverridingSettings
from podium.answers.targets import find_group, parse_name
from podium.answers.whatifplans import Addition, report_of, threats
from podium.answers.whatifreport import Basis, WhatIf
from podium.api.claims import claim_names
from podium.api.events import Event
from podium.api.membership import GroupKey, membership
from podium.api.podclaims import entry_claims
from podium.api.podrequests import devices
from podium.api.reads import Kind
from podium.api.records import RecordedPlan
from podium.api.schedulable import Schedulable
from podium.audit.survey import topmost_owners
from podium.cli.render.pictures.clustermap import ClusterMap, cluster_map
from podium.cli.ui.census import STATES, Census, CensusRow, census
from podium.cli.ui.diverging import ABOUT
from podium.cli.ui.history import newest_first
from podium.cli.ui.object_page import Member, Related
from podium.cli.ui.planning import Form, PlanAnswer, form_errors
from podium.cluster.reader import ClusterReader, Name, Target, group_of, held_devices
from podium.cluster.state import ClusterState as Index
from podium.documents.load import collector_paused
from podium.documents.reading import ClusterReading, Past
from podium.documents.split import split
from podium.history.records import moment_of
from podium.history.summary import Summary, summarize
from podium.planner.engine import Engine
from podium.planner.semantics import Semantics
from podium.planner.settings import Settings
from podium.planner.threat import Threat
from podium.text import natural

# The kinds that an account or a plan depends on; every page names those that were not read.
_FACTS = (Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.PRIORITY_CLASS, Kind.NODE, Kind.BUDGET)
# For a large cluster each engine takes a hundred megabytes.
_ENGINES = 2
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class PageData:
    """The data of the pages, from a reading of files or of a cluster."""

    def __init__(self, cluster: ClusterReading) -> None:
        self.cluster = cluster
        self.state = cluster.near.state
        # Events by namespace, for the namespaces of queries; events of files are in the reading.
        self.events: dict[str, tuple[tuple[Event, ...], tuple[str, ...]]] = {}
        self._rules_of = by_scheduler(self.state, lambda target: choose_rules(cluster, target, Choices()))
        # Making an engine takes seconds.
        self._engines = functools.lru_cache(_ENGINES)(functools.partial(Engine, self.state))

    @functools.cached_property
    def unknown(self) -> tuple[str, ...]:
        """Return the kinds that every page lacks, each with the reason."""
        return tuple(not_known(self.cluster.near, _FACTS))

    @functools.cached_property
    def census(self) -> Census:
        """Return all groups and lone pods with their states."""
        with collector_paused():
            return census(self.state)

    @functools.cached_property
    def map(self) -> ClusterMap | None:
        """Return the map of the cluster; None for a part of one, which would show used resources as free."""
        with collector_paused():
            return cluster_map(self.state) if self.cluster.whole is not None else None

    def named(self, *states: RunState) -> list[str]:
        """Return the names of groups in some states, then of lone pods, in order."""
        rows = sorted(
            (row for row in self.census.rows if row.state in states),
            key=lambda row: (not row.is_group, natural(row.namespace), natural(row.name)),
        )
        return list(dict.fromkeys(f"{row.namespace}/{row.name}" for row in rows))

    @functools.cached_property
    def divergences(self) -> AuditReport:
        """Return the audit's findings on priorities that differ. Raises PodiumError."""
        return audit(self.cluster, select=[rule.id for rule in ABOUT])

    @functools.cached_property
    def plans(self) -> list[RecordedPlan]:
        """Return all recorded plans, the newest first."""
        return newest_first(self.cluster.past.records)

    @functools.cached_property
    def summary(self) -> Summary:
        """Return the totals of the records."""
        times = [at for plan in self.plans if (at := moment_of(plan)) is not None]
        return summarize(self.cluster.past.records, _EARLIEST, max(times, default=self.cluster.at))

    def reason(self, row: CensusRow) -> Wait | None:
        """Return the first reason why a row waits, or None if it does not wait.

        Only the object and its pods are read, because a page has many rows.
        """
        if row.state is not RunState.WAITING:
            return None
        target: Target = row.key if row.key is not None else (row.namespace, row.name)
        query = WhyQuery("group" if row.is_group else "pod", (row.namespace, row.name))
        near = self.cluster.near._replace(state=self._part(target))
        cluster = self.cluster._replace(near=near, past=Past(), whole=None)
        account = explain_target(
            target, account_input(query, cluster, self._rules_of(target), self.cluster.at)
        )
        return account.waiting[0] if account is not None and account.waiting else None

    def explain(self, kind: str, name: Name, clock: datetime) -> WhyAnswer:
        """Return the account of an object, with a plan if it waits for room.

        Raises PodiumError if there is no such object.
        """
        cluster = self.cluster._replace(at=clock)
        if name[0] in self.events:
            events, missing = self.events[name[0]]
            cluster = cluster._replace(
                past=cluster.past._replace(events=events), unknown=(*cluster.unknown, *missing)
            )
        return why(cluster, name, kind, engine=self._engine)

    def report(self, planned: ProspectPlan) -> WhatIf:
        """Return the plan of an account with the additional data of `podium whatif`."""
        return report_of(planned.plan, planned.target, self.state, planned.assumed, self.cluster.source)

    def related(self, kind: str, name: Name) -> Related:
        """Return the group and the members of a pod or group."""
        native = self.state.native_served
        if kind == "pod":
            pod = self.state.pods.get(name)
            key = membership(pod, native_served=native) if pod is not None else None
            related = Related(group=key.qualified if key is not None else None)
            pods = [pod] if pod is not None else []
        else:
            group = find_group(self.state, name)
            related = Related(members=sorted(self._members(group), key=_order) if group is not None else ())
            pods = list(self.state.members(group).values()) if group is not None else []
        return related._replace(
            owners=list(map(str, topmost_owners(self.state, pods))),
            held=held_devices((pod for pod in pods if pod.holding), self.state),
            requested=devices(pod for pod in pods if pod.pending),
        )

    def plan(self, form: Form, clock: datetime) -> PlanAnswer:
        """Return the plan for a form, in the cluster as it was read. Raises PodiumError."""
        notes: list[str] = []
        with form_errors():
            report = whatif(
                self.cluster._replace(at=clock),
                parse_name("target", form.target) if form.target else None,
                added=_added(form.manifest),
                now=form.now or None,
                semantics=Semantics(form.semantics) if form.semantics else None,
                settings=OverridingSettings("the form", form.settings) if form.chooses else None,
                set_by=_set_by,
                note=notes.append,
                engine=self._engine,
            )
        return PlanAnswer(report, notes)

    def threat(self, kind: str, victim: str, clock: datetime) -> tuple[Threat, Basis]:
        """Return what would evict a victim: a `kind` (pod or group), or else a group or a pod of the name.

        Raises PodiumError.
        """
        with form_errors():
            name = parse_name("victim", victim)
            is_group = find_group(self.state, name) is not None
            cluster = self.cluster._replace(at=clock)
            return threats(cluster, name, kind or ("group" if is_group else ""), engine=self._engine)

    def _engine(self, view: ClusterReader, settings: Settings, minor: int) -> Engine:
        """Return an engine for a view; the last few of this reading are cached."""
        return self._engines(settings, minor) if view is self.state else Engine(view, settings, minor)

    def _part(self, target: Target) -> Index:
        """Return a group with its pods, or a pod, and all classes: the input for checks before scheduling."""
        whole = self.state
        index = Index(native_served=whole.native_served, unread=whole.unread)
        for priority_class in whole.classes.values():
            index.apply(priority_class)
        if isinstance(target, GroupKey):
            if target in whole.groups:
                index.apply(whole.groups[target])
            pods = list(whole.members(target).values())
        else:
            pods = [whole.pods[target]]
        for pod in pods:
            index.apply(pod)
            names = [name for _, name in claim_names(pod)] if isinstance(pod, Schedulable) else []
            for claim in filter(
                None, (whole.claims.get((pod.metadata.namespace or "", name)) for name in names)
            ):
                index.apply(claim)
                volume = whole.volumes.get((claim.spec.volumeName if claim.spec is not None else None) or "")
                if volume is not None:
                    index.apply(volume)
                storage_class = whole.storage_classes.get(claim.storage_class)
                if storage_class is not None:
                    index.apply(storage_class)
            if isinstance(pod, Schedulable) and pod.spec.resourceClaims:
                self._add_claims(index, pod)
        return index

    def _add_claims(self, index: Index, pod: Schedulable) -> None:
        """Add the resource claims of a pod to a part, with all that their problems depend on."""
        whole, namespace = self.state, pod.metadata.namespace or ""
        for entry in entry_claims(pod, group_of(whole, pod)):
            claim = whole.resource_claims.get((namespace, entry.name or ""))
            if claim is not None:
                index.apply(claim)
        for reference in pod.spec.resourceClaims or ():
            template = whole.claim_templates.get((namespace, reference.resourceClaimTemplateName or ""))
            if template is not None:
                index.apply(template)
        for device_class in whole.device_classes.values():
            index.apply(device_class)

    def _members(self, key: GroupKey) -> Iterator[Member]:
        for name, pod in self.state.members(key).items():
            if isinstance(pod, Schedulable):
                yield Member(
                    key.namespace, name, state_of(pod), pod.spec.nodeName or "", pod.spec.priority or 0
                )


def _added(manifest: str) -> Addition | None:
    """Return the objects of the form; None if it has none. Raises PodiumError."""
    if not manifest.strip():
        return None
    return Addition(list(split(manifest.encode(errors="replace"), "the manifest")))


def _set_by(_field: str) -> str:
    """Return how a field of the form was chosen, in the words of a plan."""
    return "set in the form"


def _order(member: Member) -> tuple[object, ...]:
    return STATES.index(member.state), natural(member.name)
