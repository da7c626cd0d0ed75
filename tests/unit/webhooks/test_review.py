"""AdmissionReview on the wire: the fields read, the requests refused, the fields of an answer."""

import json
from typing import Any

import msgspec
import pytest
from tests.support.rules.scene import (
    GANG,
    GOLD,
    Document,
    cluster,
    group,
    pod,
    profile,
    stored,
    template,
    workload,
)
from tests.support.webhooks.reviews import MANAGED, PODIUM, ask, asked, mutate, validate

from podium.api.convert import KEPT
from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.groups import GROUP_LABEL
from podium.rules.admission import Verdict
from podium.rules.context import Operation
from podium.rules.policy import Policy, RuleLevel
from podium.rules.webhook import NO_OPINION, AdmissionPhase
from podium.webhooks.envelope import ReviewError
from podium.webhooks.review import MAX_WARNING, MAX_WARNINGS, decode, encode


def read(review: Any) -> Any:
    body = review if isinstance(review, bytes) else json.dumps(review).encode()
    return decode(body, AdmissionPhase.VALIDATE)


def without(review: Document, *path: str) -> Document:
    """Return a review without one field."""
    *parents, last = path
    place = review
    for step in parents:
        place = place[step]
    del place[last]
    return review


def nested(depth: int) -> bytes:
    review = json.dumps(asked(group({**GANG, "x": "HERE"}, native=False)))
    return review.replace('"HERE"', "[" * depth + "]" * depth).encode()


class TestReading:
    """The requests that decode makes of reviews."""

    def test_a_review_has_the_names_of_the_request(self) -> None:
        found = read(asked(group(GANG, native=False), dryRun=True))
        assert (found.group, found.version, found.kind) == ("scheduling.podium.dev", "v1beta1", "PodGroup")
        assert (found.plural, found.operation, found.subresource) == ("podgroups", "CREATE", "")
        assert (found.namespace, found.name, found.dry_run) == ("default", "g", True)
        assert found.phase is AdmissionPhase.VALIDATE

    @pytest.mark.parametrize(
        "spec",
        [
            {},
            {"priorityClassName": None, "priority": None, "preemptionPolicy": None, "schedulingGroup": None},
            {"priorityClassName": "", "priority": 0, "preemptionPolicy": "", "schedulingGroup": {}},
            {"schedulingGroup": {"podGroupName": "g"}, "priority": 5},
        ],
        ids=["absent", "null", "zero", "given"],
    )
    def test_of_a_pod_only_what_rules_read_is_kept_as_it_was(self, spec: Document) -> None:
        """Absent, null and zero stay distinct; everything else of a pod is left out."""
        document = pod({GROUP_LABEL: "g", "app": "x"}, **spec)
        document["metadata"] |= {"managedFields": MANAGED, "annotations": {"a": "b", KEPT: "{}"}}
        document["status"] = {"phase": "Pending"}
        request = read(asked(document)).request
        assert request.object == {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "default",
                "labels": {GROUP_LABEL: "g"},
                "annotations": {KEPT: "{}"},
            },
            "spec": spec,
        }

    def test_of_a_group_the_spec_is_kept_whole(self) -> None:
        document = group({**GANG, "unknown": [1, None, {}]}, native=False)
        document |= {"status": {"conditions": []}}
        assert read(asked(document)).request.object["spec"] == document["spec"]

    @pytest.mark.parametrize("given", [{"name": "p"}, {"name": "p", "namespace": ""}])
    def test_the_requests_namespace_is_the_objects(self, given: Document) -> None:
        """If the object has no namespace, the request's is used."""
        document = pod() | {"metadata": given}
        assert read(asked(document, namespace="team-a")).request.object["metadata"]["namespace"] == "team-a"

    def test_an_update_has_both_objects(self) -> None:
        request = read(asked(pod({"a": "b"}), pod({GROUP_LABEL: "g"}), subResource="status")).request
        assert (request.operation, request.subresource) == (Operation.UPDATE, "status")
        assert request.old["metadata"]["labels"] == {GROUP_LABEL: "g"}
        assert request.object["metadata"]["labels"] == {}

    @pytest.mark.parametrize(
        "review",
        [
            asked(None, pod(), operation="DELETE"),
            asked(pod(), operation="CONNECT", subResource="exec"),
            asked(pod(), pod(), subResource="ephemeralcontainers"),
            asked({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}),
            asked({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}}),
        ],
        ids=["delete", "connect", "subresource", "kind", "owner"],
    )
    def test_a_review_without_a_rule_is_no_request(self, review: Document) -> None:
        """A registration that sends too much is harmless."""
        assert read(review).request is None

    @pytest.mark.parametrize(
        "document",
        [
            {
                "apiVersion": "kueue.x-k8s.io/v1beta1",
                "kind": "Workload",
                "metadata": {"name": "k"},
                "spec": {},
            },
            {"apiVersion": "scheduling.podium.dev/v9", "kind": "PodGroup", "metadata": {}, "spec": 1},
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {}, "value": 1},
        ],
        ids=["another group's kind", "a version to come", "a class"],
    )
    @pytest.mark.parametrize("phase", AdmissionPhase)
    def test_a_kind_of_a_like_name_is_allowed(self, document: Document, phase: AdmissionPhase) -> None:
        assert set(ask(phase, document).response) == {"uid", "allowed"}

    def test_a_key_that_stands_twice_counts_the_last_time(self) -> None:
        """encoding/json takes the last one too, so the reviewed value is the stored one."""
        body = json.dumps(asked(pod(priority=1))).replace('"priority": 1', '"priority": 1, "priority": 2')
        assert read(body.encode()).request.object["spec"] == {"priority": 2}


BAD: list[tuple[str, Any, str]] = [
    ("nothing", b"", "not an AdmissionReview"),
    ("no JSON", b"\x16\x03\x01", "not an AdmissionReview"),
    ("cut off", json.dumps(asked(pod())).encode()[:-9], "not an AdmissionReview"),
    ("more behind it", json.dumps(asked(pod())).encode() + b"{}", "not an AdmissionReview"),
    ("a list", b"[]", "not an AdmissionReview"),
    ("NaN", b'{"apiVersion": NaN}', "not an AdmissionReview"),
    ("another version", asked(pod()) | {"apiVersion": "admission.k8s.io/v1beta1"}, "v1beta1 AdmissionReview"),
    ("another kind", asked(pod()) | {"kind": "SubjectAccessReview"}, "SubjectAccessReview"),
    ("no request", without(asked(pod()), "request"), "missing required field `request`"),
    ("no uid", without(asked(pod()), "request", "uid"), "missing required field `uid`"),
    ("an empty uid", asked(pod(), uid=""), "request.uid: empty"),
    ("no kind", without(asked(pod()), "request", "kind"), "missing required field `kind`"),
    (
        "an operation that is a number",
        asked(pod()) | {"request": asked(pod())["request"] | {"operation": 7}},
        "Expected `str`",
    ),
    ("no object", asked(pod(), object=None), "request.object: "),
    ("an object that is text", asked(pod(), object="pod"), "request.object: "),
    ("an update of nothing", asked(pod(), operation="UPDATE"), "request.oldObject: "),
    ("another kind's object", asked(pod(), object=group(GANG)), "request.object: not a v1 Pod"),
    (
        "another version's old object",
        asked(group(GANG), oldObject=group(GANG, "v1alpha2"), operation="UPDATE"),
        "request.oldObject: not a scheduling.k8s.io/v1beta1 PodGroup",
    ),
    ("no text", json.dumps(asked(pod({GROUP_LABEL: "g"}))).encode().replace(b'"g"', b'"\xff"'), "utf-8"),
    ("half a character", json.dumps(asked(pod({GROUP_LABEL: "\ud800"}))).encode(), "hex escape"),
    ("deep everywhere", b'{"request":' * 100_000, "not an AdmissionReview: "),
]


@pytest.mark.parametrize(("body", "text"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_review_is_refused_in_one_line(body: Any, text: str) -> None:
    with pytest.raises(ReviewError) as caught:
        read(body)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("depth", [100, *range(850, 1050, 10), 9_000, 100_000])
def test_an_object_nested_as_deep_as_servers_take_it_is_judged(depth: int) -> None:
    """A refused review would admit it; the same if only the object in a review cannot be decoded."""
    found = read(nested(depth)).request
    assert found is not None
    assert found.object["metadata"]["name"] == "g"
    assert found.object["spec"]["schedulingPolicy"] == GANG["schedulingPolicy"]


def test_a_deep_pod_is_refused_what_a_shallow_one_is() -> None:
    """Any user can write managedFields, and the API server stores them up to 10,000 levels deep."""
    deep = pod({GROUP_LABEL: "g"})
    deep["metadata"]["managedFields"] = "HERE"
    text = json.dumps(asked(deep)).replace(
        '"HERE"', '[{"fieldsV1":' + '{"f:a":' * 5_000 + "{}" + "}" * 5_000 + "}]"
    )
    shallow, read_deep = read(asked(pod({GROUP_LABEL: "g"}))).request, read(text.encode()).request
    assert shallow is not None
    assert read_deep == shallow


class TestAnswering:
    """The responses that encode makes of verdicts."""

    def test_an_allowed_verdict_has_no_message(self) -> None:
        assert validate(pod(priority=0)).response == {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "allowed": True,
        }

    def test_a_patch_is_written_as_the_api_server_wants_it(self) -> None:
        response = mutate(group({**GANG, "priorityClassName": GOLD}, native=False)).response
        assert set(response) == {"uid", "allowed", "patchType", "patch"}
        assert response["patchType"] == "JSONPatch"

    def test_field_errors_are_causes_that_kubectl_prints(self) -> None:
        """For a 422 kubectl shows the causes only, so they must be complete."""
        spec = {"podGroupTemplates": [template(schedulingPolicy={}), template("b", priority=2_000_000_000)]}
        response = validate(workload(spec, "v1alpha2", native=False)).response
        status = response["status"]
        assert (status["status"], status["code"], status["reason"]) == ("Failure", 422, "Invalid")
        assert status["message"].startswith('Workload.scheduling.podium.dev "w" is invalid: [spec.')
        assert status["details"] == {
            "name": "w",
            "group": "scheduling.podium.dev",
            "kind": "Workload",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.podGroupTemplates[0].schedulingPolicy",
                    "message": 'Invalid value: "": must specify one of: `basic`, `gang`',
                },
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.podGroupTemplates[1].priority",
                    "message": "Invalid value: 2000000000: must be less than or equal to 1000000000",
                },
            ],
        }
        assert response["auditAnnotations"] == {"rules": "scheduling-policy,priority-too-high"}

    def test_a_403_names_the_resource_and_the_field(self) -> None:
        status = mutate(group({**GANG, "priorityClassName": "nope"}, native=False)).response["status"]
        message = "no PriorityClass with name nope was found"
        assert (status["code"], status["reason"]) == (403, "Forbidden")
        assert status["message"] == f'podgroups.scheduling.podium.dev "g" is forbidden: {message}'
        assert status["details"]["kind"] == "podgroups"
        assert status["details"]["causes"] == [{"field": "spec.priorityClassName", "message": message}]

    def test_a_breach_that_only_warns_is_a_warning_and_no_cause(self) -> None:
        view = cluster(stored(group({**GANG, "priorityClassName": GOLD})))
        response = validate(pod(schedulingGroup={"podGroupName": "g"}, priority=0), view=view).response
        assert response["allowed"]
        assert response["warnings"] == [
            (
                'spec.priority: priority 0 (no class) differs from that of PodGroup "g", which is 1000 '
                "(class podium-test-gold)"
            )
        ]
        assert response["auditAnnotations"] == {"rules": "member-priority"}

    def test_warnings_beside_a_refusal_are_not_its_causes(self) -> None:
        policy = Policy(levels={"membership-conflict": RuleLevel.DENY})
        by = profile(rules="podium", policy=policy)
        view = cluster(stored(group({**GANG, "priorityClassName": GOLD})))
        document = pod({GROUP_LABEL: "other"}, schedulingGroup={"podGroupName": "g"}, priority=0)
        answer = validate(document, view=view, by=by)
        causes = answer.response["status"]["details"]["causes"]
        assert [cause["field"] for cause in causes] == ["spec.schedulingGroup"]

    def test_a_request_without_an_object_never_gets_a_patch(self) -> None:
        """The API server treats that as an internal error."""
        review = decode(json.dumps(asked(None, pod(), operation="DELETE")).encode(), AdmissionPhase.MUTATE)
        patch = [{"op": "add", "path": "/spec/priority", "value": 1}]
        verdict = msgspec.structs.replace(NO_OPINION, patch=patch)
        assert "patch" not in json.loads(encode(review, verdict))["response"]


def warned(*warnings: str) -> list[str]:
    review = decode(json.dumps(asked(pod())).encode(), AdmissionPhase.VALIDATE)
    verdict = msgspec.structs.replace(NO_OPINION, warnings=list(warnings))
    found: list[str] = json.loads(encode(review, verdict))["response"]["warnings"]
    return found


class TestWarnings:
    """Warnings are cut to the length that the API server passes on."""

    @pytest.mark.parametrize("text", ["x" * MAX_WARNING, "é" * (MAX_WARNING // 2), "short"])
    def test_a_text_that_fits_is_whole(self, text: str) -> None:
        assert warned(text) == [text]

    @pytest.mark.parametrize(
        "text", ["x" * 257, "é" * 129, "x" + "é" * 128, "日" * 100, "🦆" * 80, "x" * 9999]
    )
    def test_a_text_that_does_not_fit_ends_in_an_ellipsis(self, text: str) -> None:
        """The limit is in bytes, but never cuts a character."""
        (cut,) = warned(text)
        assert MAX_WARNING - 4 < len(cut.encode()) <= MAX_WARNING
        assert cut.endswith("…")
        assert text.startswith(cut.removesuffix("…"))

    @pytest.mark.parametrize("length", [1, 100, 250, 256, 300])
    def test_all_of_them_have_a_limit_together(self, length: int) -> None:
        cut = warned(*("x" * length for _ in range(5000)))
        total = sum(len(text.encode()) for text in cut)
        assert MAX_WARNINGS - 4 < total <= MAX_WARNINGS


def test_every_rule_is_named_once_for_the_audit_log() -> None:
    ref = ObjectRef("v1", "Pod", "default", "p")
    findings = [
        Finding(rule=rule, severity=Severity.ERROR, object=ref, field="spec", message="m", fix="f")
        for rule in ("b", "a", "b")
    ]
    review = decode(json.dumps(asked(pod())).encode(), AdmissionPhase.VALIDATE)
    verdict = Verdict(
        allowed=False,
        code=403,
        reason="Forbidden",
        message="no",
        warnings=[],
        findings=findings,
        admitted=None,
        patch=[],
        causes=findings[:1],
    )
    assert json.loads(encode(review, verdict))["response"]["auditAnnotations"] == {"rules": "b,a"}


def test_the_object_of_a_bad_type_is_left_to_the_schema() -> None:
    """The mutating phase leaves it unchanged; the schema then refuses it with 422."""
    specs: list[Any] = [{**GANG, "priority": "high"}, {**GANG, "priority": 2**31}, [], "x"]
    for spec in specs:
        document = group({}, native=False) | {"spec": spec}
        assert set(mutate(document, by=PODIUM).response) == {"uid", "allowed"}
        assert validate(document, by=PODIUM).response["status"]["code"] == 400
