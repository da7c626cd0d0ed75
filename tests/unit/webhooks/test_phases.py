"""The checks and fields that the webhooks add to the API server: phase by phase, version by version."""

import json
from typing import Any

import pytest
from tests.support.rules.scene import (
    BASIC,
    GANG,
    GOLD,
    NEVER,
    REMOVED,
    Document,
    changed,
    cluster,
    group,
    mode,
    pod,
    priority_class,
    profile,
    stored,
    template,
    workload,
)
from tests.support.webhooks.reviews import PODIUM, Answer, mutate, validate

from podium.api.convert import KEPT
from podium.api.groups import GROUP_LABEL
from podium.api.saving import SAVES_ON_TERMINATION
from podium.cluster.state import ClusterState
from podium.rules import podiumrules
from podium.rules.context import Operation, Profile
from podium.rules.podiumrule import WriteTarget
from podium.rules.policy import Allowance, Policy, RuleLevel
from podium.rules.webhook import PARITY, AdmissionPhase

VERSIONS = ("v1alpha2", "v1beta1")
PLUGIN: Document = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}


def levels(**by_rule: str) -> Profile:
    """Return Podium's rules with some levels; `_` stands for `-` in a rule's name."""
    policy = Policy(levels={rule.replace("_", "-"): RuleLevel(level) for rule, level in by_rule.items()})
    return profile(rules="podium", policy=policy)


INHERIT = levels(member_priority="inherit")


def ours(spec: Document, version: str = "v1beta1", **metadata: Any) -> Document:
    """Return a PodGroup of Podium's."""
    made = group(spec, version, native=False)
    return made | {"metadata": made["metadata"] | metadata}


def admitted(document: Document, view: ClusterState | None = None) -> Document:
    """Return the stored form of an object, which must pass both phases."""
    answer = mutate(document, view=view)
    assert answer.response["allowed"], answer.response
    again = validate(answer.patched, view=view)
    assert again.response["allowed"], again.response
    return answer.patched


def refusal(answer: Answer) -> tuple[int, str]:
    """Return the code and the message without the name of the object."""
    status = answer.response["status"]
    return status["code"], status["message"].partition('" is ')[2]


def kept(document: Document) -> Any:
    """Return the contents of the annotation."""
    return json.loads(document["metadata"]["annotations"][KEPT])


# Fields that do not fit the class, and the message about a kind.
UNFIT: list[tuple[Document, str]] = [
    ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
    (
        {"priorityClassName": GOLD, "priority": 5},
        (
            "priority set in the {} (5) must match the priority computed (1000) based on the priority class "
            "set in the spec"
        ),
    ),
    (
        {"priorityClassName": GOLD, "priority": 1000, "preemptionPolicy": "Never"},
        (
            "the string value of PreemptionPolicy (Never) must not be provided in {} spec; priority "
            "admission controller computed PreemptLowerPriority from the given PriorityClass name"
        ),
    ),
]


class TestAGroupIsCreated:
    """The mutating phase equals the Priority plugin and decoding of a native group."""

    @pytest.mark.parametrize("version", VERSIONS)
    def test_class_integer_and_mode_are_stamped(self, version: str) -> None:
        made = admitted(ours({**GANG, "priorityClassName": GOLD}, version))
        assert made["spec"]["priority"] == 1000
        assert made["spec"]["disruptionMode"] == mode(version, whole=False)

    def test_the_policy_of_the_class_is_a_field_in_v1beta1(self) -> None:
        made = admitted(ours({**GANG, "priorityClassName": NEVER}))
        assert made["spec"]["preemptionPolicy"] == "Never"
        assert "annotations" not in made["metadata"]

    @pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}, {KEPT: "no JSON"}, {KEPT: "[1]"}])
    def test_the_policy_of_the_class_is_an_annotation_in_v1alpha2(self, annotations: Any) -> None:
        """It is added to the existing annotations."""
        document = ours({**GANG, "priorityClassName": NEVER}, "v1alpha2", annotations=annotations)
        made = admitted(document)
        assert "preemptionPolicy" not in made["spec"]
        assert kept(made) == {"preemptionPolicy": "Never"}
        rest = {key: text for key, text in made["metadata"]["annotations"].items() if key != KEPT}
        assert rest == {key: text for key, text in (annotations or {}).items() if key != KEPT}

    @pytest.mark.parametrize("version", VERSIONS)
    def test_no_class_is_the_default_class_or_none(self, version: str) -> None:
        assert admitted(ours(GANG, version))["spec"]["priority"] == 0
        view = cluster(priority_class("std", value=7, globalDefault=True))
        spec = admitted(ours(GANG, version), view)["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("std", 7)

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(("spec", "message"), UNFIT[:2])
    @pytest.mark.parametrize("ask", [mutate, validate])
    def test_a_class_that_does_not_fit_is_refused(
        self, version: str, spec: Document, message: str, ask: Any
    ) -> None:
        """The messages are upstream's.

        As there, the mutating phase refuses, and the validating one agrees.
        """
        given = ours({**GANG, "priority": 0, **spec}, version)
        assert refusal(ask(given)) == (403, f"forbidden: {message.format('pod group')}")

    @pytest.mark.parametrize("ask", [mutate, validate])
    def test_a_policy_that_is_not_the_classs_is_refused_in_either_shape(self, ask: Any) -> None:
        message = f"forbidden: {UNFIT[2][1].format('pod group')}"
        spec = {**GANG, "priorityClassName": GOLD, "priority": 1000}
        newer = ours({**spec, "preemptionPolicy": "Never"})
        older = ours(spec, "v1alpha2", annotations={KEPT: '{"preemptionPolicy":"Never"}'})
        for document in (newer, older):
            assert refusal(ask(document)) == (403, message)

    def test_a_class_that_is_not_there_yet_is_awaited(self) -> None:
        assert mutate(ours({**GANG, "priorityClassName": "late"})).verdict.awaits == ("PriorityClass late",)
        assert mutate(ours({**GANG, "priorityClassName": GOLD})).verdict.awaits == ()

    def test_fields_are_left_to_the_schema(self) -> None:
        """A field that only validation checks is never a 422 of the mutating phase."""
        answer = mutate(ours({"priorityClassName": GOLD, "disruptionMode": {}, "schedulingPolicy": {}}))
        assert answer.response["allowed"]
        assert answer.patched["spec"]["priority"] == 1000

    def test_a_generated_name_is_not_known_yet(self) -> None:
        document = group({**GANG, "priorityClassName": "nope"}, native=False)
        document["metadata"] = {"generateName": "train-"}
        status = mutate(document).response["status"]
        assert status["message"].startswith('podgroups.scheduling.podium.dev "train-" is forbidden: ')
        assert status["details"]["name"] == ""


def composite(spec: Document, **metadata: Any) -> Document:
    """Make a composite group of Podium's."""
    return {
        "apiVersion": "scheduling.podium.dev/v1beta1",
        "kind": "CompositePodGroup",
        "metadata": {"name": "all", "namespace": "default", **metadata},
        "spec": {**TREE, **spec},
    }


TREE = {
    "workloadRef": {"workloadName": "w", "templateName": "root"},
    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
}


class TestACompositeGroup:
    """Podium's kind gets the values of its class, and upstream's texts."""

    def test_class_mode_and_policy_are_stamped(self) -> None:
        made = admitted(composite({"priorityClassName": NEVER}, name="a" * 200))
        assert {key: value for key, value in made["spec"].items() if key not in TREE} == {
            "priorityClassName": NEVER,
            "priority": 2000,
            "preemptionPolicy": "Never",
            "disruptionMode": {"single": {}},
        }
        view = cluster(priority_class("std", value=7, globalDefault=True))
        spec = admitted(composite({}), view)["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("std", 7)

    @pytest.mark.parametrize(("spec", "message"), UNFIT)
    @pytest.mark.parametrize("ask", [mutate, validate])
    def test_a_class_that_does_not_fit_is_refused(self, spec: Document, message: str, ask: Any) -> None:
        text = f"forbidden: {message.format('composite pod group')}"
        assert refusal(ask(composite({"priority": 0, **spec}))) == (403, text)

    def test_fields_are_checked_beside_the_schema(self) -> None:
        stored_group = admitted(composite({}))
        changes: list[tuple[Document, Document | None, str]] = [
            ({"workloadRef": None}, None, "spec.workloadRef: Required value"),
            ({"priority": 2_000_000_000}, None, "must be less than or equal to 1000000000"),
            (
                {"schedulingPolicy": {"gang": {"minGroupCount": 3}}},
                stored_group,
                "spec.schedulingPolicy: Invalid value: null: field is immutable",
            ),
        ]
        for spec, old, text in changes:
            document = composite({**stored_group["spec"], **spec})
            code, message = refusal(validate(document, old))
            assert (code, text in message) == (422, True), message

    @pytest.mark.parametrize(("kubernetes", "allowed"), [("1.36", False), ("1.37", False), ("1.38", True)])
    def test_the_minor_of_the_cluster_decides(self, kubernetes: str, *, allowed: bool) -> None:
        """The schema allows a new minGroupCount and a system class, so only the webhook refuses them."""
        by = profile(kubernetes, "podium")
        made = admitted(composite({"schedulingPolicy": {"gang": {"minGroupCount": 2}}}))
        more = changed(made, "spec.schedulingPolicy.gang.minGroupCount", 3)
        assert validate(more, made, by=by).response["allowed"] is allowed
        critical = mutate(composite({"priorityClassName": "system-cluster-critical"}), by=by).patched
        assert critical["spec"]["priority"] == 2_000_000_000
        assert validate(critical, by=by).response["allowed"] is allowed

    def test_the_allowed_classes_of_a_namespace_count(self) -> None:
        policy = Policy(allow=(Allowance(namespaces=("*",), groups=("silver",)),))
        answer = validate(
            admitted(composite({"priorityClassName": GOLD})), by=profile(rules="podium", policy=policy)
        )
        assert [finding.rule for finding in answer.verdict.findings] == ["class-allowed"]

    def test_a_parent_in_the_annotation_of_v1alpha2_has_the_rules_of_the_field(self) -> None:
        """It needs a template, and is immutable."""
        annotation = {KEPT: '{"parentCompositePodGroupName":"all"}'}
        orphan = ours({**GANG, "priority": 0}, "v1alpha2", annotations=annotation)
        assert "must be set when parentCompositePodGroupName is set" in refusal(validate(orphan))[1]
        ref = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
        made = admitted(ours({**GANG, **ref}, "v1alpha2", annotations=annotation))
        assert kept(made) == {
            "parentCompositePodGroupName": "all",
            "preemptionPolicy": "PreemptLowerPriority",
        }
        other = changed(made, "metadata.annotations", {KEPT: '{"preemptionPolicy":"PreemptLowerPriority"}'})
        assert (
            "spec.parentCompositePodGroupName: Invalid value: null: field is immutable"
            in (refusal(validate(other, made))[1])
        )


class TestTheTemplate:
    """A group takes missing fields from its template, before anything is defaulted."""

    @staticmethod
    def reference(version: str) -> Document:
        if version == "v1beta1":
            return {"workloadRef": {"workloadName": "w", "templateName": "workers"}}
        names = {"workloadName": "w", "podGroupTemplateName": "workers"}
        return {"podGroupTemplateRef": {"workload": names}}

    @pytest.mark.parametrize("version", VERSIONS)
    def test_policy_mode_and_class_come_from_it(self, version: str) -> None:
        gang = {"gang": {"minCount": 4}}
        given = template(schedulingPolicy=gang, priorityClassName=GOLD, disruptionMode={"all": {}})
        view = cluster(workload({"podGroupTemplates": [given]}, native=False))
        spec = admitted(ours(self.reference(version), version), view)["spec"]
        assert spec["schedulingPolicy"] == {"gang": {"minCount": 4}}
        assert spec["disruptionMode"] == mode(version, whole=True)
        assert (spec["priorityClassName"], spec["priority"]) == (GOLD, 1000)

    @pytest.mark.parametrize("version", VERSIONS)
    def test_fields_set_by_the_group_stay(self, version: str) -> None:
        given = template(priorityClassName=GOLD, disruptionMode={"all": {}})
        view = cluster(workload({"podGroupTemplates": [given]}, native=False))
        spec = {**GANG, "priorityClassName": NEVER, "disruptionMode": mode(version, whole=False)}
        made = admitted(ours({**self.reference(version), **spec}, version), view)
        assert made["spec"].items() >= spec.items()

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_workload_that_is_not_there_yet_is_awaited(self, version: str) -> None:
        """The wait needs a field to take from it; a reference to a missing object stays legal."""
        document = ours({**self.reference(version), **GANG}, version)
        answer = mutate(document)
        assert answer.verdict.awaits == ("Workload default/w",)
        assert answer.response["allowed"]
        complete = {"priorityClassName": GOLD, "disruptionMode": mode(version, whole=False)}
        full = document | {"spec": document["spec"] | complete}
        assert mutate(full).verdict.awaits == ()
        assert mutate(document, by=levels(group_unlike_template="off")).verdict.awaits == ()


class TestAGroupIsUpdated:
    """An update is never mutated, except for fields that native decoding would set."""

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize("whole", [False, True])
    def test_a_mode_left_out_is_the_default_again(self, version: str, whole: bool) -> None:
        """A PUT of the manifest is therefore refused only if another mode is stored."""
        old = admitted(ours({**GANG, "disruptionMode": mode(version, whole=whole)}, version))
        answer = mutate(changed(old, "spec.disruptionMode", REMOVED), old)
        assert answer.patched == changed(old, "spec.disruptionMode", mode(version, whole=False))
        validated = validate(answer.patched, old)
        if whole:
            field = "spec.disruptionMode: Invalid value: null: field is immutable"
            assert refusal(validated) == (422, f"invalid: {field}")
        else:
            assert validated.response["allowed"]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_group_stored_without_a_mode_stays_without(self, version: str) -> None:
        """It was stored while the webhook was down; a default now would be a change."""
        old = changed(admitted(ours(GANG, version)), "spec.disruptionMode", REMOVED)
        answer = mutate(changed(old, "metadata.labels", {"a": "b"}), old)
        assert answer.verdict.patch == []
        assert validate(answer.patched, old).response["allowed"]

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("spec.priorityClassName", REMOVED),
            ("spec.priority", REMOVED),
            ("spec.priority", 0),
            ("spec.schedulingPolicy", {"basic": {}}),
        ],
    )
    def test_immutable_fields_cannot_change(self, version: str, field: str, value: Any) -> None:
        old = admitted(ours({**GANG, "priorityClassName": GOLD}, version))
        answer = mutate(changed(old, field, value), old)
        assert answer.verdict.patch == []
        code, message = refusal(validate(answer.patched, old))
        assert (code, field in message) == (422, True)

    def test_a_classs_new_value_does_not_matter_to_what_is_stored(self) -> None:
        old = admitted(ours({**GANG, "priorityClassName": GOLD}))
        view = cluster(priority_class(GOLD, value=9))
        new = changed(old, "metadata.labels", {"a": "b"})
        assert mutate(new, old, view=view).verdict.patch == []
        assert validate(new, old, view=view).response["allowed"]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_an_object_being_deleted_may_change(self, version: str) -> None:
        """Its finalizers must be removable, whatever other faults it has."""
        old = ours({**GANG, "priority": -(10**9) * 2}, version, deletionTimestamp="2026-11-21T00:00:00Z")
        new = changed(old, "spec", {"schedulingPolicy": {}})
        assert set(mutate(new, old).response) == {"uid", "allowed"}
        assert set(validate(new, old).response) == {"uid", "allowed"}

    def test_the_status_is_not_ours(self) -> None:
        old = admitted(ours(GANG))
        for ask in (mutate, validate):
            answer = ask(changed(old, "spec.priority", 9), old, subResource="status")
            assert set(answer.response) == {"uid", "allowed"}


class TestThePolicyThatV1alpha2Keeps:
    """preemptionPolicy is an annotation there, and as immutable as the field."""

    QUIET = '{"preemptionPolicy":"Never"}'
    LOUD = '{"preemptionPolicy":"PreemptLowerPriority"}'

    @classmethod
    def group(cls) -> Document:
        return admitted(ours({**GANG, "priorityClassName": NEVER}, "v1alpha2"))

    @classmethod
    def workload(cls, text: str | None = None) -> Document:
        made = workload({"podGroupTemplates": [template("a"), template("b")]}, "v1alpha2", native=False)
        return made if text is None else changed(made, "metadata.annotations", {KEPT: text})

    @pytest.mark.parametrize("text", [LOUD, "{}", "no JSON", '{"preemptionPolicy":"Sometimes"}'])
    def test_of_a_group_it_cannot_be_changed(self, text: str) -> None:
        old = self.group()
        new = changed(old, "metadata.annotations", {KEPT: text})
        assert mutate(new, old).verdict.patch == []
        message = "invalid: spec.preemptionPolicy: Invalid value: null: field is immutable"
        assert refusal(validate(new, old)) == (422, message)

    def test_of_a_group_it_cannot_come(self) -> None:
        """A group of another time has none."""
        old = changed(self.group(), "metadata.annotations", REMOVED)
        new = changed(old, "metadata.annotations", {KEPT: self.QUIET})
        assert refusal(validate(new, old))[0] == 422

    @pytest.mark.parametrize("annotations", [REMOVED, None, {}, {"a": "b"}])
    def test_left_out_it_stays(self, annotations: Any) -> None:
        """A client of v1alpha2 that replaces its manifest has no field that it could intend to remove."""
        old = self.group()
        answer = mutate(changed(old, "metadata.annotations", annotations), old)
        assert kept(answer.patched) == {"preemptionPolicy": "Never"}
        assert validate(answer.patched, old).response["allowed"]

    def test_written_in_another_way_it_is_the_same(self) -> None:
        old = self.group()
        new = changed(old, "metadata.annotations", {KEPT: '{ "preemptionPolicy" : "Never", "x": 1 }'})
        assert validate(new, old).response["allowed"]

    def test_of_a_template_it_cannot_be_changed(self) -> None:
        def text(a: str, b: str) -> str:
            return json.dumps({"podGroupTemplates": {"a": json.loads(a), "b": json.loads(b)}})

        old = self.workload(text(self.QUIET, self.LOUD))
        new = self.workload(text(self.QUIET, self.QUIET))
        message = (
            "invalid: spec.podGroupTemplates[1].preemptionPolicy: Invalid value: null: field is immutable"
        )
        assert refusal(validate(new, old)) == (422, message)
        assert validate(old, old).response["allowed"]

    def test_of_a_workload_it_stays_where_it_is_left_out(self) -> None:
        old = self.workload('{"podGroupTemplates":{"a":{"preemptionPolicy":"Never"}}}')
        answer = mutate(self.workload(), old)
        assert answer.patched == old
        assert validate(answer.patched, old).response["allowed"]

    def test_in_v1beta1_the_annotation_means_nothing(self) -> None:
        old = admitted(ours({**GANG, "priorityClassName": NEVER}))
        new = changed(old, "metadata.annotations", {KEPT: self.LOUD})
        assert mutate(new, old).verdict.patch == []
        assert validate(new, old).response["allowed"]


class TestWhatAnotherWebhookDid:
    """The validating phase sees the stored object, with changes after our mutating webhook."""

    @pytest.mark.parametrize(
        ("version", "path", "value", "code", "text"),
        [
            ("v1beta1", "spec.priority", REMOVED, 403, "forbidden: priority is not set"),
            ("v1beta1", "spec.preemptionPolicy", REMOVED, 403, "forbidden: preemptionPolicy is not set"),
            ("v1alpha2", "metadata.annotations", REMOVED, 403, KEPT),
            ("v1beta1", "spec.schedulingPolicy", {}, 422, "must specify one of: `basic`, `gang`"),
            ("v1beta1", "metadata.name", "x" * 64, 422, "metadata.name: Too long"),
        ],
        ids=["no priority", "no policy", "no kept policy", "an empty policy", "a long name"],
    )
    def test_a_change_that_breaks_a_rule_is_refused(
        self, version: str, path: str, value: Any, code: int, text: str
    ) -> None:
        """A stamp may be gone; fields are judged although the schema has checked them."""
        made = admitted(ours({**GANG, "priorityClassName": GOLD}, version))
        refused, message = refusal(validate(changed(made, path, value)))
        assert (refused, text in message) == (code, True)

    def test_a_default_class_that_is_gone_is_refused(self) -> None:
        view = cluster(priority_class("std", value=0, globalDefault=True))
        made = admitted(ours(GANG), view)
        code, _ = refusal(validate(changed(made, "spec.priorityClassName", REMOVED), view=view))
        assert code == 403

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_mode_that_is_gone_is_not(self, version: str) -> None:
        """It means the default."""
        made = admitted(ours(GANG, version))
        assert validate(changed(made, "spec.disruptionMode", REMOVED)).response["allowed"]

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_finalizer_without_a_domain_is_refused(self, version: str) -> None:
        """The API server refuses it for its own kinds only; a deleted one does not matter."""
        made = admitted(ours(GANG, version))
        named = changed(made, "metadata.finalizers", ["a.b/c", "nobody"])
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        text = f'invalid: metadata.finalizers[1]: Invalid value: "nobody": {detail}'
        assert refusal(validate(named)) == (422, text)
        assert refusal(validate(named, made)) == (422, text)
        assert validate(made, named).response["allowed"]


STD = priority_class("std", value=5, globalDefault=True)
# The class that a group names; the classes known to the replica that stamped it, and to the one that
# validates; the class that the latter reads again.
BEHIND: list[tuple[str, str, list[Document], list[Document], str]] = [
    ("a value", GOLD, [priority_class(GOLD, value=7)], [], f"another PriorityClass {GOLD}"),
    (
        "a policy",
        GOLD,
        [priority_class(GOLD, value=1000, preemptionPolicy="Never")],
        [],
        f"another PriorityClass {GOLD}",
    ),
    ("a class", "new", [priority_class("new", value=3)], [], "PriorityClass new"),
    ("a new default", "", [STD], [], "PriorityClass std"),
    ("another default", "", [changed(STD, "metadata.name", "d")], [STD], "PriorityClass d"),
    ("no default any more", "", [], [STD], "another default PriorityClass"),
]


class TestAReplicaThatIsBehind:
    """A replica validates another's stamp with a cache that may be older: it reads again, then refuses."""

    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize(
        ("name", "ahead", "behind", "awaited"), [row[1:] for row in BEHIND], ids=[row[0] for row in BEHIND]
    )
    def test_a_stamp_that_does_not_fit_is_awaited(
        self, version: str, name: str, ahead: list[Document], behind: list[Document], awaited: str
    ) -> None:
        spec = {**GANG, "priorityClassName": name} if name else GANG
        made = mutate(ours(spec, version), view=cluster(*ahead)).patched
        answer = validate(made, view=cluster(*behind))
        assert answer.response["status"]["code"] == 403
        assert answer.verdict.awaits == (awaited,)
        again = validate(made, view=cluster(*ahead))
        assert again.response["allowed"]
        assert again.verdict.awaits == ()

    def test_a_default_that_is_not_known_as_one_yet_fits(self) -> None:
        """The stamp names it, and that is enough."""
        made = mutate(ours(GANG), view=cluster(STD)).patched
        answer = validate(made, view=cluster(changed(STD, "globalDefault", False)))
        assert (answer.response["allowed"], answer.verdict.awaits) == (True, ())

    def test_invalid_fields_are_refused_at_once(self) -> None:
        """No other class would correct it."""
        made = changed(mutate(ours(GANG)).patched, "spec.schedulingPolicy", {"gang": {"minCount": 0}})
        answer = validate(made)
        assert (answer.response["status"]["code"], answer.verdict.awaits) == (422, ())

    def test_the_mutating_phase_refuses_at_once(self) -> None:
        """There the integer is the client's own."""
        answer = mutate(ours({**GANG, "priorityClassName": GOLD, "priority": 5}))
        assert (answer.response["status"]["code"], answer.verdict.awaits) == (403, ())


class TestAWorkload:
    """A Workload is not mutated when it is created."""

    @pytest.mark.parametrize("version", VERSIONS)
    def test_it_passes_as_it_is(self, version: str) -> None:
        document = workload({"podGroupTemplates": [template(priorityClassName=GOLD)]}, version, native=False)
        assert admitted(document) == document

    def test_a_template_class_that_is_not_there_warns_and_is_awaited(self) -> None:
        document = workload({"podGroupTemplates": [template(priorityClassName="late")]}, native=False)
        answer = validate(document)
        assert answer.response["warnings"] == [
            "spec.podGroupTemplates[0].priorityClassName: no PriorityClass with name late was found"
        ]
        assert answer.verdict.awaits == ("PriorityClass late",)

    def test_unlike_templates_of_v1alpha2_can_be_updated_in_v1beta1(self) -> None:
        """v1alpha2 allows them, and then another client adds a label in the other version."""
        spec = {"podGroupTemplates": [template("a", priorityClassName=GOLD), template("b")]}
        older, newer = (workload(spec, version, native=False) for version in VERSIONS)
        admitted(older)
        assert refusal(validate(newer))[0] == 422
        labelled = changed(newer, "metadata.labels", {"a": "b"})
        assert validate(labelled, newer).response["allowed"]


class TestNativeKinds:
    """The API server has validated them; only Podium's rules are left."""

    @pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
    def test_parity_rules_are_off(self, version: str) -> None:
        """Not even a wrong object is refused, and nothing is stamped."""
        for document in (
            group({"schedulingPolicy": {}, "priorityClassName": "nope", "priority": 2**31}, version),
            group({"schedulingPolicy": {"gang": {"minCount": 0}}, "priority": 5}, version),
            workload({"podGroupTemplates": []}, version),
        ):
            assert set(mutate(document).response) == {"uid", "allowed"}
            assert set(validate(document).response) == {"uid", "allowed"}
            new = changed(document, "spec.schedulingPolicy", {"basic": {}})
            assert set(validate(new, document).response) == {"uid", "allowed"}

    @pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
    def test_own_rules_warn(self, version: str) -> None:
        whole = mode(version, whole=True)
        answer = validate(group({**BASIC, "disruptionMode": whole}, version))
        assert answer.response["allowed"]
        assert answer.response["auditAnnotations"] == {"rules": "basic-with-group-disruption"}
        denied = validate(
            group({**BASIC, "disruptionMode": whole}, version), by=levels(basic_with_group_disruption="deny")
        )
        assert refusal(denied) == (403, "forbidden: a basic group cannot be disrupted as a whole")


def member(**spec: Any) -> Document:
    """Return a pod of the group g after the Priority plugin."""
    return pod({GROUP_LABEL: "g"}, **{**PLUGIN, **spec})


GROUPED = cluster(stored(ours({**GANG, "priorityClassName": NEVER}), by=PODIUM))


class TestAPod:
    """Pods inherit if configured, and keep their label."""

    def test_it_inherits_class_integer_and_policy_at_once(self) -> None:
        answer = mutate(member(), view=GROUPED, by=INHERIT)
        assert [operation["path"] for operation in answer.verdict.patch] == [
            "/spec/priorityClassName",
            "/spec/priority",
            "/spec/preemptionPolicy",
        ]
        spec = answer.patched["spec"]
        assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (
            NEVER,
            2000,
            "Never",
        )
        assert mutate(answer.patched, view=GROUPED, by=INHERIT).verdict.patch == []
        assert set(validate(answer.patched, view=GROUPED, by=INHERIT).response) == {"uid", "allowed"}

    def test_the_default_class_counts_as_none_chosen(self) -> None:
        group_of_gold = stored(ours({**GANG, "priorityClassName": GOLD}), by=PODIUM)
        view = cluster(priority_class("std", value=7, globalDefault=True), group_of_gold)
        document = member(priorityClassName="std", priority=7)
        assert mutate(document, view=view, by=INHERIT).patched["spec"]["priority"] == 1000

    @pytest.mark.parametrize(
        ("document", "by"),
        [
            (member(), PODIUM),
            (member(priorityClassName=GOLD, priority=1000), INHERIT),
            (pod(**PLUGIN), INHERIT),
            (pod(schedulingGroup={"podGroupName": "g"}, **PLUGIN), levels(member_priority="off")),
        ],
        ids=["not asked to", "a class of its own", "no group", "off"],
    )
    def test_otherwise_it_stays_as_it_is(self, document: Document, by: Profile) -> None:
        answer = mutate(document, view=GROUPED, by=by)
        assert (answer.verdict.patch, answer.verdict.awaits) == ([], ())

    @pytest.mark.parametrize(
        ("document", "view", "awaited"),
        [
            (member(), cluster(), "PodGroup default/g"),
            (member(priorityClassName="new-default"), GROUPED, "PriorityClass new-default"),
            (
                member(),
                cluster(ours({**GANG, "priorityClassName": "late", "priority": 5})),
                "PriorityClass late",
            ),
        ],
        ids=["group", "perhaps the default", "class of the group"],
    )
    def test_a_missing_source_of_inheritance_is_awaited(
        self, document: Document, view: ClusterState, awaited: str
    ) -> None:
        answer = mutate(document, view=view, by=INHERIT)
        assert answer.verdict.awaits == (awaited,)
        assert answer.response["allowed"]

    def test_where_the_plugin_is_off_no_integer_is_zero(self) -> None:
        answer = validate(pod({GROUP_LABEL: "g"}), view=GROUPED)
        assert "0 (no class)" in answer.response["warnings"][0]

    @pytest.mark.parametrize("subresource", ["", "status"])
    @pytest.mark.parametrize("labels", [{}, {GROUP_LABEL: "other"}, None])
    def test_the_label_cannot_change(self, subresource: str, labels: Any) -> None:
        old = member()
        new = changed(old, "metadata.labels", labels)
        assert mutate(new, old, by=INHERIT, subResource=subresource).verdict.patch == []
        answer = validate(new, old, subResource=subresource)
        assert answer.response["status"]["code"] == 403
        assert answer.response["auditAnnotations"] == {"rules": "group-label-immutable"}

    def test_a_pod_that_goes_may_lose_its_label(self) -> None:
        old = changed(member(), "metadata.deletionTimestamp", "2026-11-21T00:00:00Z")
        assert validate(changed(old, "metadata.labels", {}), old).response["allowed"]

    def test_an_update_of_anything_else_is_not_ours(self) -> None:
        old = member()
        new = changed(old, "spec.priority", 9)
        assert set(validate(new, old, view=GROUPED).response) == {"uid", "allowed"}

    def test_a_class_may_be_forbidden_to_any_pod(self) -> None:
        policy = Policy(allow=(Allowance(namespaces=("team-*",), pods=("low",)),))
        by = profile(rules="podium", policy=policy)
        document = pod(priorityClassName=GOLD, priority=1000)
        del document["metadata"]["namespace"]
        assert validate(document, by=by, namespace="default").response["allowed"]
        answer = validate(document, by=by, namespace="team-a")
        message = f"pods in namespace team-a may not use class {GOLD} (allowed: low)"
        assert refusal(answer) == (403, f"forbidden: {message}")


def targets(kind: str, operation: Operation, phase: AdmissionPhase, subresource: str = "") -> set[str]:
    """Return the ids of the own rules that apply to a write."""
    return {
        rule.cause.rule.id
        for rule in podiumrules.OWN_RULES
        for target in rule.on
        if target[:4] == (kind, operation, phase, subresource)
    }


LONG = "x" * 64
BREACHING_GROUP: Document = {
    **BASIC,
    "disruptionMode": {"all": {}},
    "priorityClassName": GOLD,
    "workloadRef": {"workloadName": "w", "templateName": "workers"},
}
BREACHING_TEMPLATES = [
    template("a", priorityClassName="nope", disruptionMode="PodGroup"),
    template("b", priorityClassName="system-node-critical", priority=5),
]
BREACHING_WORKLOAD = workload({"podGroupTemplates": BREACHING_TEMPLATES}, "v1alpha2", native=False)
WRONG = {SAVES_ON_TERMINATION: "soon"}
CONFLICTING = changed(
    pod({GROUP_LABEL: "no"}, schedulingGroup={"podGroupName": "g"}, priorityClassName=GOLD),
    "metadata.annotations",
    WRONG,
)
# Objects that breach every rule that applies to them.
BREACHES: list[tuple[str, Document, Document | None, str]] = [
    ("a pod", CONFLICTING, None, ""),
    ("a label", changed(pod({}), "metadata.annotations", WRONG), pod({GROUP_LABEL: "g"}), ""),
    ("a label by the status", pod({}), pod({GROUP_LABEL: "g"}), "status"),
    ("a group", changed(ours(BREACHING_GROUP, name=LONG), "metadata.annotations", WRONG), None, ""),
    ("a stored group", changed(ours(BASIC), "metadata.annotations", WRONG), ours(BASIC), ""),
    ("a Workload", changed(BREACHING_WORKLOAD, "metadata.name", LONG), None, ""),
]


class TestTheTable:
    """The table for the registration has exactly the kinds and operations to which rules apply."""

    @pytest.mark.parametrize(
        ("document", "old", "subresource"), [row[1:] for row in BREACHES], ids=[row[0] for row in BREACHES]
    )
    def test_every_rule_speaks_where_the_table_says(
        self, document: Document, old: Document | None, subresource: str
    ) -> None:
        policy = Policy(
            levels={rule.cause.rule.id: RuleLevel.WARN for rule in podiumrules.OWN_RULES},
            allow=(Allowance(namespaces=("*",), pods=(), groups=()),),
        )
        by = profile(rules="podium", policy=policy)
        view = cluster(
            stored(group({**GANG, "priorityClassName": NEVER}), by=PODIUM),
            workload({"podGroupTemplates": [template(priorityClassName=NEVER)]}, native=False),
        )
        sent = mutate(document, old, view=view, by=by, subResource=subresource).patched
        answer = validate(sent, old, view=view, by=by, subResource=subresource)
        operation = Operation.CREATE if old is None else Operation.UPDATE
        rules = {finding.rule for finding in answer.verdict.findings}
        assert answer.response["allowed"], answer.response
        # In a tree all classes are equal, so the rule on its modes has a test of its own.
        expected = targets(document["kind"], operation, AdmissionPhase.VALIDATE, subresource)
        assert rules == expected - {"composite-child-mode"}

    @pytest.mark.parametrize("native", [True, False])
    def test_templates_below_one_of_mode_all_must_have_it_too(self, *, native: bool) -> None:
        """The KEP requires it: a warning on native kinds, and a refusal of Podium's."""
        leaves = [template("a", disruptionMode={"single": {}}), template("b", disruptionMode={"all": {}})]
        gang = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
        root = {"name": "root", **gang, "disruptionMode": {"all": {}}, "podGroupTemplates": leaves[:1]}
        verdict = validate(workload({"compositePodGroupTemplates": [root]}, native=native)).verdict
        assert verdict.allowed is native
        (finding,) = verdict.findings
        assert finding.field == "spec.compositePodGroupTemplates[0].podGroupTemplates[0].disruptionMode"
        assert "is not `all`, but that of the composite template" in finding.message

    def test_only_inheriting_needs_the_mutating_phase(self) -> None:
        mutating = [
            (rule.cause.rule.id, target)
            for rule in podiumrules.OWN_RULES
            for target in rule.on
            if target.phase is AdmissionPhase.MUTATE
        ]
        pods = WriteTarget("Pod", Operation.CREATE, AdmissionPhase.MUTATE, members=True)
        assert mutating == [("member-priority", pods)]

    def test_parity_is_about_podiums_kinds(self) -> None:
        assert {target.kind for target in PARITY} == {"PodGroup", "CompositePodGroup", "Workload"}
        assert not any(target.subresource or target.members for target in PARITY)
