"""The answers from one reading of a cluster: the values of every page, computed as the commands do.

This module computes nothing that a command computes: waiting is `podium why`, a plan is `podium whatif`,
divergences are `podium audit`. Slow results are cached as long as the reading.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from click import UsageError

from podium.answers.accounts.disruptions import Past
from podium.answers.accounts.explain import explain_target, state_of
from podium.answers.accounts.model import RunState, Wait
from podium.answers.audits.report import AuditReport
from podium.answers.audits.run import audit, choose_minor
from podium.api.events import Event
from podium.api.findings import ObjectRef
from podium.api.membership import GroupKey, membership
from podium.api.podclaims import entry_claims
from podium.api.podrequests import devices
from podium.api.reads import Kind
from podium.api.records import RecordedPlan
from podium.api.schedulable import Schedulable
from podium.cli import whatifinput
from podium.cli.config.schedulersettings import OverridingSettings
from podium.cli.naming import full_name
from podium.cli.render.pictures.clustermap import ClusterMap, cluster_map
from podium.cli.render.whatif_words import Basis, WhatIf
from podium.cli.ui.census import STATES, Census, CensusRow, census
from podium.cli.ui.diverging import ABOUT
from podium.cli.ui.history import newest_first
from podium.cli.ui.one import Member, Related
from podium.cli.ui.planning import Form, PlanAnswer
from podium.cli.whatifinput import Assumptions, PlanTime, assume, by_scheduler
from podium.cli.whatifplan import PlanInput, report, report_of
from podium.cli.whyanswer import (
    ProspectPlan,
    WhyAnswer,
    WhyQuery,
    account_input,
    explain_query,
    not_found_message,
)
from podium.cli.whyinput import WhyData
from podium.cluster.helddevices import held_devices
from podium.cluster.reader import ClusterReader, Name, Target, group_of
from podium.cluster.state import ClusterState as Index
from podium.documents.load import Loaded, collector_paused
from podium.documents.split import split
from podium.errors import PodiumError
from podium.history.records import moment_of
from podium.history.summary import Summary, summarize
from podium.planner.engine import Engine
from podium.planner.settings import Settings
from podium.planner.threat import Threat, threat
from podium.planner.volumes import claims_of
from podium.rules.audit.survey import topmost_owners

# The kinds that an account or a plan depends on; every page names those that were not read.
_FACTS = (Kind.POD_GROUP, Kind.COMPOSITE_GROUP, Kind.PRIORITY_CLASS, Kind.NODE, Kind.BUDGET)
# For a large cluster each engine takes a hundred megabytes.
_ENGINES = 2
# How a value of the form was chosen, in the words of a plan.
_CHOSEN = "set in the form"
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class Answers:
    """A reading of files, or of a cluster (`live`), at a time; `source` names it in words."""

    def __init__(self, read: WhyData, at: datetime, source: str, *, live: bool) -> None:
        self.read = read
        self.at = at
        self.source = source
        self.live = live
        self.state = read.near.state
        # Events by namespace, for the namespaces of queries; events of files are in `read`.
        self.events: dict[str, tuple[tuple[Event, ...], tuple[str, ...]]] = {}
        self._rules_of = by_scheduler(
            self.state, lambda target: whatifinput.choose_rules(None, target, self.read.near, live=self.live)
        )
        # Making an engine takes seconds.
        self._engines = functools.lru_cache(_ENGINES)(functools.partial(Engine, self.state))

    @functools.cached_property
    def unknown(self) -> tuple[str, ...]:
        """Return the kinds that every page lacks, each with the reason."""
        return tuple(whatifinput.not_known(self.read.near, _FACTS))

    @functools.cached_property
    def census(self) -> Census:
        """Return all groups and lone pods with their states."""
        with collector_paused():
            return census(self.state)

    @functools.cached_property
    def map(self) -> ClusterMap | None:
        """Return the map of the cluster; None for a part of one, which would show used resources as free."""
        with collector_paused():
            return cluster_map(self.state) if self.read.whole is not None else None

    def named(self, *states: RunState) -> list[str]:
        """Return the names of groups and lone pods in some states, in order."""
        return sorted({f"{row.namespace}/{row.name}" for row in self.census.rows if row.state in states})

    @functools.cached_property
    def divergences(self) -> AuditReport:
        """Return the audit's findings on priorities that differ. Raises PodiumError."""
        loaded = self.read.near
        minor, chosen_by = choose_minor(loaded.state, loaded.server)
        with collector_paused(), loaded.origins.placed():
            return audit(
                loaded.state,
                kubernetes=minor,
                chosen_by=chosen_by,
                select=[rule.id for rule in ABOUT],
                namespace=loaded.scope.namespace,
                selector=loaded.scope.selector,
            )

    @functools.cached_property
    def plans(self) -> list[RecordedPlan]:
        """Return all recorded plans, the newest first."""
        return newest_first(self.read.past.records)

    @functools.cached_property
    def summary(self) -> Summary:
        """Return the totals of the records."""
        times = [at for each in self.plans if (at := moment_of(each)) is not None]
        return summarize(self.read.past.records, _EARLIEST, max(times, default=self.at))

    def reason(self, row: CensusRow) -> Wait | None:
        """Return the first reason why a row waits, or None if it does not wait.

        Only the object and its pods are read, because a page has many rows.
        """
        if row.state is not RunState.WAITING:
            return None
        target: Target = row.key if row.key is not None else (row.namespace, row.name)
        question = self._question("group" if row.is_group else "pod", (row.namespace, row.name))
        part = self.read._replace(
            near=self.read.near._replace(state=self._part(target)), past=Past(), whole=None
        )
        account = explain_target(target, account_input(question, part, self._rules_of(target), self.at))
        return account.waiting[0] if account is not None and account.waiting else None

    def explain(self, kind: str, name: Name, clock: datetime) -> WhyAnswer:
        """Return the account of an object, with a plan if it waits for room.

        Raises PodiumError if there is no such object.
        """
        read = self.read
        if name[0] in self.events:
            events, missing = self.events[name[0]]
            read = read._replace(past=read.past._replace(events=events), unknown=(*read.unknown, *missing))
        question = self._question(kind, name)
        with collector_paused(), read.near.origins.placed():
            found = explain_query(question, read, clock, self._engine)
        if found.account is None:
            raise PodiumError(not_found_message(question, read))
        return found

    def report(self, planned: ProspectPlan) -> WhatIf:
        """Return the plan of an account with the additional data of `podium whatif`."""
        basis = planned.assumed.basis(self.source)
        return report_of(planned.plan, planned.target, self.state, basis)

    def related(self, kind: str, name: Name) -> Related:
        """Return the group and the members of a pod or group."""
        native = self.state.native_served
        if kind == "pod":
            pod = self.state.pods.get(name)
            key = membership(pod, native_served=native) if pod is not None else None
            related = Related(group=key.qualified if key is not None else None)
            pods = [pod] if pod is not None else []
        else:
            found = whatifinput.find_group(self.state, name)
            related = Related(members=sorted(self._members(found), key=_order) if found is not None else ())
            pods = list(self.state.members(found).values()) if found is not None else []
        return related._replace(
            owners=list(map(str, topmost_owners(self.state, pods))),
            held=held_devices((pod for pod in pods if pod.holding), self.state),
            requested=devices(pod for pod in pods if pod.pending),
        )

    def plan(self, form: Form, clock: datetime) -> PlanAnswer:
        """Return the plan for a form, in the cluster as it was read.

        Raises PodiumError and click.UsageError.
        """
        loaded = self.read.near
        whatifinput.check_whole(loaded)
        moment = self._moment(form, clock)
        added: Mapping[Target, ObjectRef] = {}
        notes: tuple[str, ...] = ()
        unplanned: Mapping[ObjectRef, str] = {}
        with collector_paused(), loaded.origins.placed():
            if form.manifest.strip():
                documents = split(form.manifest.encode(errors="replace"), "the manifest")
                expansion = whatifinput.expanded(documents, loaded, moment)
                loaded = loaded._replace(state=loaded.state.copy())
                expansion.apply(loaded.state)
                added, notes = expansion.targets, expansion.notes
                unplanned = {} if form.target else expansion.unplanned
            targets = self._meant(form, added, loaded)
            given = OverridingSettings("the form", form.settings) if form.chooses else None

            def assumed(target: Target) -> Assumptions:
                made = assume(target, loaded, moment, given, live=self.live, semantics=form.semantics or None)
                return made._replace(rules=made.rules._replace(why=_CHOSEN)) if form.semantics else made

            query = PlanInput(loaded.state, moment.at, by_scheduler(loaded.state, assumed), self._engine)
            made = report(query, targets, added, lambda chosen: chosen.basis(self.source), unplanned)
            return PlanAnswer(made, notes)

    def threat(self, kind: str, victim: str, clock: datetime) -> tuple[Threat, Basis]:
        """Return what would evict a victim: a `kind` (pod or group), or else a group or a pod of the name.

        Raises PodiumError and click.UsageError.
        """
        loaded = self.read.near
        whatifinput.check_whole(loaded)
        name = full_name("Running group or pod", victim)
        is_group = whatifinput.find_group(loaded.state, name) is not None
        target = whatifinput.find_victim(name, kind or ("group" if is_group else None), loaded.state)
        moment = whatifinput.moment(None, loaded, clock, live=self.live)
        assumed = assume(target, loaded, moment, live=self.live)
        with collector_paused(), loaded.origins.placed():
            engine = self._engine(loaded.state, assumed.chosen.settings, assumed.rules.minor)
            found = threat(engine, target, moment.at)
        return found, assumed.basis(self.source)

    def _moment(self, form: Form, clock: datetime) -> PlanTime:
        """Return the time of a plan. Raises PodiumError in the words of the form."""
        try:
            moment = whatifinput.moment(form.now or None, self.read.near, clock, live=self.live)
        except UsageError as error:
            raise PodiumError(error.message.replace("--now", "Time of the plan", 1)) from None
        return moment._replace(why=_CHOSEN) if form.now else moment

    def _meant(self, form: Form, added: Iterable[Target], loaded: Loaded) -> list[Target]:
        """Return the targets of a form: a group or else a pod of the name, or all that was added."""
        added = list(added)
        if not form.target and not added:
            raise PodiumError(
                "Objects to add: none is or creates a pending pod or group. Add a workload, or name "
                "a pending group or pod"
            )
        if not form.target:
            return whatifinput.choose_targets(None, None, added, loaded.state, None)
        name = full_name("Pending group or pod", form.target)
        is_pod = name in loaded.state.pods and whatifinput.find_group(loaded.state, name) is None
        pod, group = (name, None) if is_pod else (None, name)
        return whatifinput.choose_targets(pod, group, (), loaded.state, None)

    def _question(self, kind: str, name: Name) -> WhyQuery:
        return WhyQuery(kind, name, None, None, live=self.live)

    def _engine(self, view: ClusterReader, settings: Settings, minor: int) -> Engine:
        """Return an engine for a view; the last few of this reading are cached."""
        return self._engines(settings, minor) if view is self.state else Engine(view, settings, minor)

    def _part(self, target: Target) -> Index:
        """Return a group with its pods, or a pod, and all classes: the input for checks before scheduling."""
        whole = self.state
        part = Index(native_served=whole.native_served, unread=whole.unread)
        for each in whole.classes.values():
            part.apply(each)
        if isinstance(target, GroupKey):
            if target in whole.groups:
                part.apply(whole.groups[target])
            pods = list(whole.members(target).values())
        else:
            pods = [whole.pods[target]]
        for pod in pods:
            part.apply(pod)
            names = claims_of(pod) if isinstance(pod, Schedulable) else ()
            for claim in filter(None, (whole.claims.get((pod.metadata.namespace or "", it)) for it in names)):
                part.apply(claim)
                volume = whole.volumes.get((claim.spec.volumeName if claim.spec is not None else None) or "")
                if volume is not None:
                    part.apply(volume)
                storage_class = whole.storage_classes.get(claim.storage_class)
                if storage_class is not None:
                    part.apply(storage_class)
            if isinstance(pod, Schedulable) and pod.spec.resourceClaims:
                self._add_claims(part, pod)
        return part

    def _add_claims(self, part: Index, pod: Schedulable) -> None:
        """Add the resource claims of a pod to a part, with all that their problems depend on."""
        whole, namespace = self.state, pod.metadata.namespace or ""
        for entry in entry_claims(pod, group_of(whole, pod)):
            claim = whole.resource_claims.get((namespace, entry.name or ""))
            if claim is not None:
                part.apply(claim)
        for each in pod.spec.resourceClaims or ():
            template = whole.claim_templates.get((namespace, each.resourceClaimTemplateName or ""))
            if template is not None:
                part.apply(template)
        for device_class in whole.device_classes.values():
            part.apply(device_class)

    def _members(self, key: GroupKey) -> Iterator[Member]:
        for name, pod in self.state.members(key).items():
            if isinstance(pod, Schedulable):
                yield Member(
                    key.namespace, name, state_of(pod), pod.spec.nodeName or "", pod.spec.priority or 0
                )


def _order(member: Member) -> tuple[int, str]:
    return STATES.index(member.state), member.name
