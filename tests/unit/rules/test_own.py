"""Podium's own rules: their findings at each level, on native and on Podium's kinds."""

from typing import Any

import pytest
from tests.support.rules.scene import (
    BASIC,
    GANG,
    GOLD,
    NEVER,
    Document,
    changed,
    cluster,
    create,
    group,
    mode,
    pod,
    priority_class,
    profile,
    rules_of,
    stored,
    template,
    update,
    workload,
)

from podium.api.groups import GROUP_LABEL
from podium.api.priority import TOLERATION_PREFIXES
from podium.api.saving import (
    CHECKPOINT,
    CHECKPOINT_INTERVAL,
    RESTART_TIME,
    RUN_TIME,
    SAVES_ON_NOTICE,
    SAVES_ON_TERMINATION,
)
from podium.cluster.state import ClusterState
from podium.rules import podiumrules
from podium.rules.admission import Profile
from podium.rules.policy import Allowance, Policy, RuleLevel

PODIUM = profile(rules="podium")


def levels(**by_rule: str) -> Profile:
    """Return Podium's rules with some levels; `_` stands for `-` in a rule's name."""
    policy = Policy(levels={rule.replace("_", "-"): RuleLevel(level) for rule, level in by_rule.items()})
    return profile(rules="podium", policy=policy)


def with_group(*, native: bool = True, **spec: Any) -> ClusterState:
    """Return a cluster with a stored group."""
    return cluster(stored(group({**GANG, **spec}, native=native), by=PODIUM))


def labelled(**spec: Any) -> Document:
    return pod({GROUP_LABEL: "g"}, **spec)


def in_group(**spec: Any) -> Document:
    return pod(schedulingGroup={"podGroupName": "g"}, **spec)


class TestBasicAsAWhole:
    """A basic group that is disrupted as a whole."""

    def test_denied_on_podiums_kinds(self) -> None:
        document = group({**BASIC, "disruptionMode": {"all": {}}}, native=False)
        verdict = create(document, by=PODIUM)
        assert (verdict.code, rules_of(verdict)) == (403, ["basic-with-group-disruption"])
        assert verdict.message == (
            'podgroups.scheduling.podium.dev "g" is forbidden: a basic group cannot be disrupted as a whole'
        )

    @pytest.mark.parametrize("minor, version", [("1.36", "v1alpha2"), ("1.37", "v1beta1")])
    def test_warned_of_on_native_kinds(self, minor: str, version: str) -> None:
        document = group({**BASIC, "disruptionMode": mode(version, whole=True)}, version)
        verdict = create(document, by=profile(minor, "podium"))
        assert verdict.allowed
        assert rules_of(verdict) == ["basic-with-group-disruption"]
        assert verdict.warnings == ["spec.disruptionMode: a basic group cannot be disrupted as a whole"]

    def test_named_by_template(self) -> None:
        document = workload({"podGroupTemplates": [template(disruptionMode={"all": {}})]})
        (finding,) = create(document, by=PODIUM).findings
        assert finding.field == "spec.podGroupTemplates[0].disruptionMode"

    @pytest.mark.parametrize("level", ["off", "deny"])
    def test_level_decides(self, level: str) -> None:
        document = group({**BASIC, "disruptionMode": {"all": {}}})
        verdict = create(document, by=levels(basic_with_group_disruption=level))
        assert verdict.allowed is (level == "off")

    def test_level_of_a_family_wins(self) -> None:
        policy = Policy(
            levels={"basic-with-group-disruption": RuleLevel.OFF},
            native={"basic-with-group-disruption": RuleLevel.DENY},
        )
        by = profile(rules="podium", policy=policy)
        spec = {**BASIC, "disruptionMode": {"all": {}}}
        assert not create(group(spec), by=by).allowed
        assert create(group(spec, native=False), by=by).allowed

    @pytest.mark.parametrize("spec", [{**GANG, "disruptionMode": {"all": {}}}, BASIC])
    def test_nothing_to_say(self, spec: Document) -> None:
        assert create(group(spec), by=PODIUM).findings == []

    def test_upstream_says_nothing(self) -> None:
        assert create(group({**BASIC, "disruptionMode": {"all": {}}})).findings == []


class TestMemberPriority:
    """A pod whose integer differs from its group's."""

    @pytest.mark.parametrize("member", [in_group, labelled])
    def test_warned_of(self, member: object) -> None:
        assert callable(member)
        state = with_group(native=member is in_group, priorityClassName=GOLD)
        verdict = create(member(), state, PODIUM)
        assert verdict.allowed
        assert verdict.warnings == [
            (
                'spec.priority: priority 0 (no class) differs from that of PodGroup "g", '
                f"which is 1000 (class {GOLD})"
            )
        ]

    def test_integers_count_not_names(self) -> None:
        state = with_group(priorityClassName=GOLD)
        other = priority_class("other", value=1000)
        state.apply(next(iter(cluster(other).classes[name] for name in ["other"])))
        assert create(in_group(priorityClassName="other"), state, PODIUM).findings == []

    def test_absent_group_is_no_finding(self) -> None:
        assert create(in_group(priorityClassName=GOLD), by=PODIUM).findings == []

    def test_the_field_is_ignored_where_it_is_not_served(self) -> None:
        state = with_group(priorityClassName=GOLD)
        verdict = create(in_group(), state, profile(rules="podium", served=False))
        assert rules_of(verdict) == ["gated-field-dropped"]

    def test_denied(self) -> None:
        state = with_group(priorityClassName=GOLD)
        assert create(in_group(), state, levels(member_priority="deny")).code == 403

    def test_inherits_all_three(self) -> None:
        state = with_group(native=False, priorityClassName=NEVER)
        verdict = create(labelled(), state, levels(member_priority="inherit"))
        assert verdict.patch == [
            {"op": "add", "path": "/spec/priorityClassName", "value": NEVER},
            {"op": "add", "path": "/spec/priority", "value": 2000},
            {"op": "add", "path": "/spec/preemptionPolicy", "value": "Never"},
        ]
        assert verdict.findings == []

    def test_inherits_over_what_the_server_stamped_already(self) -> None:
        """A webhook sees the pod after the Priority plugin: its integer is the default's."""
        state = with_group(priorityClassName=NEVER)
        state.apply(cluster(priority_class("std", value=5, globalDefault=True)).classes["std"])
        sent = in_group(priorityClassName="std", priority=5, preemptionPolicy="PreemptLowerPriority")
        admitted = create(sent, state, levels(member_priority="inherit")).admitted
        assert admitted is not None
        assert admitted["spec"]["priorityClassName"] == NEVER

    @pytest.mark.parametrize(
        "chosen", [{"priorityClassName": NEVER}, {"priority": 0, "preemptionPolicy": "Never"}]
    )
    def test_a_choice_is_not_overridden(self, chosen: Document) -> None:
        state = with_group(priorityClassName=GOLD)
        verdict = create(in_group(**chosen), state, levels(member_priority="inherit"))
        assert GOLD not in str(verdict.patch)

    def test_a_class_that_changed_since_is_not_inherited(self) -> None:
        """Its integer would not be the group's, and the server would refuse any other."""
        state = with_group(priorityClassName=GOLD)
        state.apply(cluster(priority_class(GOLD, value=7)).classes[GOLD])
        verdict = create(in_group(), state, levels(member_priority="inherit"))
        assert verdict.allowed
        assert rules_of(verdict) == ["member-priority"]
        assert GOLD not in str(verdict.patch)


class TestAllowedClasses:
    """The classes that a namespace may use."""

    BY = profile(
        rules="podium",
        policy=Policy(
            allow=(
                Allowance(namespaces=("kube-*",)),
                Allowance(namespaces=("def*",), pods=("podium-test-g*",), groups=()),
                Allowance(namespaces=("*",), pods=()),
            )
        ),
    )

    def test_allowed(self) -> None:
        assert create(pod(priorityClassName=GOLD), by=self.BY).allowed

    def test_refused_to_a_pod(self) -> None:
        verdict = create(pod(priorityClassName=NEVER), by=self.BY)
        assert verdict.message == (
            f'pods "p" is forbidden: pods in namespace default may not use class {NEVER} '
            "(allowed: podium-test-g*)"
        )

    @pytest.mark.parametrize("native", [True, False])
    def test_refused_to_a_group(self, native: bool) -> None:
        verdict = create(group({**GANG, "priorityClassName": GOLD}, native=native), by=self.BY)
        assert rules_of(verdict) == ["class-allowed"]

    def test_the_default_class_counts(self) -> None:
        state = cluster(priority_class("std", value=5, globalDefault=True))
        assert create(pod(), state, self.BY).code == 403

    def test_no_class_is_no_use(self) -> None:
        assert create(pod(), by=self.BY).allowed

    def test_the_first_entry_that_covers_a_namespace_decides(self) -> None:
        document = changed(pod(priorityClassName=NEVER), "metadata.namespace", "kube-system")
        assert create(document, by=self.BY).allowed


class TestTemplates:
    """Faults of a template, and groups that differ from theirs."""

    def test_absent_class(self) -> None:
        document = workload({"podGroupTemplates": [template(priorityClassName="nope")]})
        verdict = create(document, by=PODIUM)
        assert verdict.allowed
        assert rules_of(verdict) == ["template-class-missing"]

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({}, "it names no class, which gives 0. Groups of template workers have priority 0"),
            (
                {"priorityClassName": GOLD},
                f"class {GOLD} has 1000. Groups of template workers have priority 1000",
            ),
        ],
    )
    def test_priority_without_its_class(self, fields: dict[str, Any], message: str) -> None:
        """The API server stores it, and refuses a group that repeats it."""
        document = workload({"podGroupTemplates": [template(priority=500, **fields)]})
        verdict = create(document, by=PODIUM)
        assert verdict.allowed
        (warning,) = verdict.warnings
        assert warning == (
            f"spec.podGroupTemplates[0].priority: priority 500 is set, but {message}, or are refused if they "
            "repeat 500."
        )
        assert rules_of(verdict) == ["template-priority-unresolved"]

    @pytest.mark.parametrize("fields", [{"priority": 0}, {"priority": 1000, "priorityClassName": GOLD}])
    def test_priority_of_its_class(self, fields: dict[str, Any]) -> None:
        document = workload({"podGroupTemplates": [template(**fields)]})
        assert rules_of(create(document, by=PODIUM)) == []

    def test_system_class(self) -> None:
        document = workload({"podGroupTemplates": [template(priorityClassName="system-node-critical")]})
        assert rules_of(create(document, by=PODIUM)) == ["system-class-on-group"]

    def test_unlike(self) -> None:
        state = cluster(
            stored(
                workload(
                    {
                        "podGroupTemplates": [
                            template(priorityClassName=GOLD, priority=1000, disruptionMode={"single": {}})
                        ]
                    }
                )
            )
        )
        document = group(
            {
                **GANG,
                "workloadRef": {"workloadName": "w", "templateName": "workers"},
                "disruptionMode": {"all": {}},
            }
        )
        verdict = create(document, state, PODIUM)
        assert verdict.warnings == [
            f'spec.priorityClassName: is unset, template "workers" has {GOLD}',
            'spec.priority: is 0, template "workers" has 1000',
            'spec.disruptionMode: is PodGroup, template "workers" has Pod',
            'spec.schedulingPolicy: is gang with minCount 2, template "workers" has basic',
        ]
        assert set(rules_of(verdict)) == {"group-unlike-template"}

    @pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
    def test_podiums_groups_inherit_what_they_leave_unset(self, version: str) -> None:
        made = template(
            priorityClassName=NEVER,
            disruptionMode=mode(version, whole=True),
            schedulingPolicy={"gang": {"minCount": 4}},
        )
        state = cluster(stored(workload({"podGroupTemplates": [made]}, version, native=False), by=PODIUM))
        flat = {"workloadRef": {"workloadName": "w", "templateName": "workers"}}
        nested = {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "workers"}}
        }
        document = group(nested if version == "v1alpha2" else flat, version, native=False)
        verdict = create(document, state, PODIUM)
        assert verdict.admitted is not None
        spec = verdict.admitted["spec"]
        assert spec["schedulingPolicy"] == {"gang": {"minCount": 4}}
        assert spec["disruptionMode"] == mode(version, whole=True)
        assert (spec["priorityClassName"], spec["priority"]) == (NEVER, 2000)
        assert spec.get("preemptionPolicy") == (None if version == "v1alpha2" else "Never")
        assert verdict.findings == []

    def test_native_groups_inherit_nothing(self) -> None:
        state = cluster(stored(workload({"podGroupTemplates": [template(priorityClassName=GOLD)]})))
        document = group({**BASIC, "workloadRef": {"workloadName": "w", "templateName": "workers"}})
        verdict = create(document, state, PODIUM)
        assert verdict.admitted is not None
        assert verdict.admitted["spec"]["priority"] == 0


class TestGroupLabel:
    """Membership by label does not change during a pod's life."""

    @pytest.mark.parametrize("subresource", ["", "status"])
    @pytest.mark.parametrize(
        "labels, ends",
        [({GROUP_LABEL: "other"}, 'may not be changed to "other"'), ({}, "may not be removed")],
    )
    def test_a_change_is_refused(self, labels: dict[str, str], ends: str, subresource: str) -> None:
        old = stored(labelled(), by=PODIUM)
        verdict = update(changed(old, "metadata.labels", labels), old, by=PODIUM, subresource=subresource)
        assert (verdict.code, rules_of(verdict)) == (403, ["group-label-immutable"])
        assert f'{ends} once the pod exists, it is "g"' in verdict.message

    @pytest.mark.parametrize("subresource", ["", "status"])
    @pytest.mark.parametrize("labels", [None, {}, {"a": "b"}])
    @pytest.mark.parametrize("value", ["g", ""])
    def test_a_running_pod_joins_no_group(
        self, labels: dict[str, str] | None, value: str, subresource: str
    ) -> None:
        old = stored(pod(labels), by=PODIUM)
        new = changed(old, "metadata.labels", {**(labels or {}), GROUP_LABEL: value})
        verdict = update(new, old, by=PODIUM, subresource=subresource)
        assert (verdict.code, rules_of(verdict)) == (403, ["group-label-immutable"])
        assert f'may not be added as "{value}" once the pod exists, it has none' in verdict.message

    def test_other_labels_are_free(self) -> None:
        old = stored(labelled(), by=PODIUM)
        assert update(changed(old, "metadata.labels.a", "b"), old, by=PODIUM).allowed

    def test_upstream_lets_it_change(self) -> None:
        old = stored(labelled())
        assert update(changed(old, "metadata.labels", {}), old).allowed

    def test_label_and_field_that_disagree(self) -> None:
        verdict = create(pod({GROUP_LABEL: "a"}, schedulingGroup={"podGroupName": "b"}), by=PODIUM)
        assert verdict.allowed
        assert rules_of(verdict) == ["membership-conflict"]


class TestPodiumKinds:
    """Podium's kinds get upstream's rules with their own group in the text."""

    @pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
    def test_names_fit_a_label(self, kind: str) -> None:
        name = "x" * 64
        document = (
            group(GANG, native=False, name=name)
            if kind == "PodGroup"
            else workload({"podGroupTemplates": [template()]}, native=False, name=name)
        )
        verdict = create(document, by=PODIUM)
        assert verdict.code == 422
        assert verdict.message.endswith("metadata.name: Too long: may not be more than 63 bytes")

    def test_parity_texts(self) -> None:
        verdict = create(group({}, native=False), by=PODIUM)
        assert verdict.message == (
            'PodGroup.scheduling.podium.dev "g" is invalid: spec.schedulingPolicy: Invalid value: "": must '
            "specify one of: `basic`, `gang`"
        )

    def test_policy_is_stamped_with_the_class(self) -> None:
        document = group({**GANG, "priorityClassName": NEVER}, native=False)
        assert create(document, by=PODIUM).patch == [
            {"op": "add", "path": "/spec/priority", "value": 2000},
            {"op": "add", "path": "/spec/preemptionPolicy", "value": "Never"},
        ]

    def test_policy_of_ones_own_is_refused(self) -> None:
        document = group({**GANG, "preemptionPolicy": "Never"}, native=False)
        assert rules_of(create(document, by=PODIUM)) == ["group-preemption-policy-mismatch"]

    def test_nothing_is_gated(self) -> None:
        spec = {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "host"}]}}
        verdict = create(group(spec, native=False), by=PODIUM)
        assert verdict.message.endswith(
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"
        )

    def test_trees_of_templates_have_the_servers_rules(self) -> None:
        spec = {"podGroupTemplates": [template()], "compositePodGroupTemplates": [{"name": "x"}]}
        verdict = create(workload(spec, native=False), by=PODIUM)
        for text in (
            'spec: Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify',
            'spec.compositePodGroupTemplates[0]: Invalid value: "x": must have at least one child',
        ):
            assert text in verdict.message

    def test_no_nulls_no_empty_status_no_foreign_finalizer(self) -> None:
        admitted = create(group(GANG, "v1alpha2", native=False), by=PODIUM).admitted
        assert admitted == {
            "apiVersion": "scheduling.podium.dev/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {**GANG, "disruptionMode": "Pod", "priority": 0},
        }


@pytest.mark.parametrize("native", [True, False])
def test_a_disruption_mode_where_the_kep_writes_it_is_told_where_it_belongs(*, native: bool) -> None:
    policy = {"schedulingPolicy": {**GANG["schedulingPolicy"], "disruptionMode": "PodGroup"}}
    verdict = create(group(policy, native=native), by=PODIUM)
    (found,) = verdict.findings
    assert (found.rule, found.field) == ("unknown-field", "spec.schedulingPolicy.disruptionMode")
    assert "KEP-5710 has it here; the API has it beside schedulingPolicy." in found.message
    assert verdict.warnings == ['unknown field "spec.schedulingPolicy.disruptionMode"']


LONGER = (
    "61s is longer than the grace period of the pod (60s); raise spec.terminationGracePeriodSeconds, or save "
    "faster"
)
DECLARATIONS: dict[str, tuple[str, str, str]] = {
    "a time of a checkpoint": (CHECKPOINT, "2026-01-31T12:00:00Z", ""),
    "a time without a zone": (
        CHECKPOINT,
        "2026-01-31 12:00",
        "'2026-01-31 12:00' is no time such as 2026-01-31T12:00:00Z",
    ),
    "the grace period": (SAVES_ON_TERMINATION, "60s", ""),
    "more than the grace period": (SAVES_ON_TERMINATION, "61s", LONGER),
    "a number": (SAVES_ON_TERMINATION, "30", "'30' is no duration from 1s to 24h, such as 90s, 5m or 1m30s"),
    "a long notice": (SAVES_ON_NOTICE, "10m", ""),
    "too long a notice": (
        SAVES_ON_NOTICE,
        "11m",
        "'11m' is no duration from 1s to 10m, such as 90s, 5m or 1m30s",
    ),
    "a week": (CHECKPOINT_INTERVAL, "168h", ""),
    "more than a week": (
        CHECKPOINT_INTERVAL,
        "169h",
        "'169h' is no duration from 1s to 168h, such as 90s, 5m or 1m30s",
    ),
    "no time at all": (RESTART_TIME, "0s", "'0s' is no duration from 1s to 24h, such as 90s, 5m or 1m30s"),
    "a run time": (RUN_TIME, "720h", ""),
    "a run time of over a month": (
        RUN_TIME,
        "721h",
        "'721h' is no duration from 1s to 720h, such as 90s, 5m or 1m30s",
    ),
    "another annotation": ("example.com/restart-time", "soon", ""),
}


class TestDeclarations:
    """A wrong declaration of a pod or a group is refused with what to write."""

    @pytest.mark.parametrize(("key", "text", "message"), DECLARATIONS.values(), ids=list(DECLARATIONS))
    def test_a_pod_is_judged_with_its_grace_period(self, key: str, text: str, message: str) -> None:
        document = changed(pod(terminationGracePeriodSeconds=60), "metadata.annotations", {key: text})
        verdict = create(document, by=PODIUM)
        assert verdict.message.removeprefix('pods "p" is forbidden: ') == message
        assert rules_of(verdict) == (["save-declaration"] if message else [])

    @pytest.mark.parametrize("native", [True, False])
    def test_a_group_is_judged_without_a_grace_period(self, *, native: bool) -> None:
        document = group(GANG, native=native)
        long, wrong = ({SAVES_ON_TERMINATION: text} for text in ("1h", "1 h"))
        assert create(changed(document, "metadata.annotations", long), by=PODIUM).allowed
        assert not create(changed(document, "metadata.annotations", wrong), by=PODIUM).allowed

    def test_an_update_of_anything_else_is_allowed(self) -> None:
        """The webhook may have been installed after the pod was created."""
        wrong = changed(pod(), "metadata.annotations", {RESTART_TIME: "x"})
        assert update(changed(wrong, "metadata.labels", {"a": "b"}), wrong, by=PODIUM).allowed
        assert not update(
            changed(wrong, "metadata.annotations", {RESTART_TIME: "y"}), wrong, by=PODIUM
        ).allowed


class TestClasses:
    """PriorityClasses are reviewed by `podium admit` only: no webhook is called for them."""

    @pytest.mark.parametrize("prefix", TOLERATION_PREFIXES)
    def test_a_toleration_that_does_not_parse_warns_as_the_audit_does(self, prefix: str) -> None:
        key = f"{prefix}toleration-seconds"
        verdict = create(with_annotations({key: "1h"}), by=PODIUM)
        assert rules_of(verdict) == ["toleration-unreadable"]
        message = f"metadata.annotations[{key}]: '1h' is not a 64-bit integer: the toleration has no end."
        assert verdict.warnings == [message]

    @pytest.mark.parametrize(("other", "found"), [("600", []), ("60", ["toleration-prefix"])])
    def test_a_toleration_that_differs_under_the_two_prefixes_warns(
        self, other: str, found: list[str]
    ) -> None:
        given = zip(TOLERATION_PREFIXES, ("600", other), strict=True)
        annotations = {f"{prefix}toleration-seconds": seconds for prefix, seconds in given}
        assert rules_of(create(with_annotations(annotations), by=PODIUM)) == found

    def test_a_class_without_a_value_warns(self) -> None:
        document = priority_class()
        document.pop("value", None)
        verdict = create(document, by=PODIUM)
        assert (verdict.allowed, rules_of(verdict)) == (True, ["class-without-value"])
        assert not create(document).warnings
        assert rules_of(create(document, by=levels(class_without_value="deny"))) == ["class-without-value"]
        assert not rules_of(create(priority_class(value=0), by=PODIUM))

    def test_no_webhook_is_sent_a_class(self) -> None:
        assert not any(rule.on for rule in podiumrules.CLASS_RULES)


def with_annotations(annotations: dict[str, str]) -> Document:
    return changed(priority_class(value=5), "metadata.annotations", annotations)
