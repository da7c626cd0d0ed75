"""The steps of an install and an uninstall, and their order, without a server."""

import copy
import json
from typing import Any

import pytest
import yaml

from podium.api.groups import CONTROLLER_MANAGER, FINALIZER, SCHEDULER_MANAGER
from podium.documents.packagedata import folder
from podium.errors import PodiumError
from podium.ops import installing, uninstall
from podium.ops.install import (
    MANAGER,
    REGISTRATIONS,
    Action,
    Apply,
    Await,
    Document,
    InstallOutcome,
    Key,
    RemoveObject,
    Until,
    action,
    advice,
    bridging,
    difference,
    failing_open,
    key_of,
    lacking,
    manifests,
    objects_path,
    plan_install,
)
from podium.ops.restoring import restoring

_MODES = ("admission", "scheduler")


def _named(mode: str, kind: str, name: str) -> Document:
    (found,) = [
        each for each in manifests(mode, None) if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.mark.parametrize("mode", _MODES)
def test_dependencies_are_installed_first(mode: str) -> None:
    """The order is namespace, served definitions, rights; a policy is before the process that it limits."""
    steps = list(plan_install(manifests(mode, None), {}))
    places = {
        key_of(each.document).kind: place for place, each in enumerate(steps) if isinstance(each, Apply)
    }
    kinds = ["Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    kinds += ["ValidatingAdmissionPolicyBinding"] if mode == "scheduler" else []
    kinds += ["Service", "Deployment", *REGISTRATIONS]
    assert [places[each] for each in kinds] == sorted(places[each] for each in kinds)
    established = [
        place
        for place, each in enumerate(steps)
        if isinstance(each, Await) and each.until is Until.ESTABLISHED
    ]
    assert len(established) == 4
    assert (
        places["CustomResourceDefinition"] < min(established) <= max(established) < places["ServiceAccount"]
    )
    assert {key_of(each.document) for each in steps if isinstance(each, Apply)} == {
        key_of(each) for each in manifests(mode, None)
    }


@pytest.mark.parametrize("mode", _MODES)
def test_a_new_registration_fails_open_until_the_webhook_answers(mode: str) -> None:
    """The policy is before the webhook, which waits for it, and takes effect after all that is waited for."""
    steps = list(plan_install(manifests(mode, None), {}))
    meant = steps[-2:]
    waits = [place for place, each in enumerate(steps) if isinstance(each, Await)]
    assert max(waits) == len(steps) - 3
    for each in meant:
        assert isinstance(each, Apply)
        assert each.document["kind"] in REGISTRATIONS
        assert Apply(failing_open(each.document)) in steps
    for each in steps[:-2]:
        if isinstance(each, Apply) and each.document["kind"] in REGISTRATIONS:
            assert {one["failurePolicy"] for one in each.document["webhooks"]} == {"Ignore"}
    trusted = {each.key.kind for each in steps if isinstance(each, Await) and each.until is Until.TRUSTED}
    assert trusted == {"CustomResourceDefinition", *REGISTRATIONS}


def test_a_registration_that_is_there_stays_closed() -> None:
    """Requests that were denied before an upgrade are denied during it."""
    documents = manifests("admission", None)
    there = {key_of(each): each for each in documents if each["kind"] in REGISTRATIONS}
    applied = [key_of(each.document) for each in plan_install(documents, there) if isinstance(each, Apply)]
    assert sorted(applied[-2:]) == sorted(there)
    assert not set(there) & set(applied[:-2])


def test_the_image_is_everywhere() -> None:
    images = {
        container["image"]
        for each in manifests("scheduler", "example.com/podium:9")
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {"example.com/podium:9"}


def test_a_mode_that_is_not_there() -> None:
    with pytest.raises(PodiumError, match=r"nothing\.yaml: read failed: .*. Reinstall podium-k8s"):
        manifests("nothing", None)


_CONDITION = {"type": "Established", "status": "True"}
_TAKEN = {
    "type": "NamesAccepted",
    "status": "False",
    "reason": "ListKindConflict",
    "message": '"PodGroupList" is already in use',
}


@pytest.mark.parametrize(
    ("document", "until", "want"),
    [
        (None, Until.AVAILABLE, "does not exist"),
        ({"status": {}}, Until.ESTABLISHED, "is not served yet"),
        ({"status": {"conditions": [_CONDITION]}}, Until.ESTABLISHED, ""),
        (
            {"status": {"conditions": [{**_CONDITION, "status": "False"}]}},
            Until.ESTABLISHED,
            "is not served yet",
        ),
        ({"status": {"conditions": [_TAKEN]}}, Until.ESTABLISHED, f"is not served yet: {_TAKEN['message']}"),
        ({"status": {"observedGeneration": 2}}, Until.AVAILABLE, "has 0 of 2 new pods"),
    ],
)
def test_missing_readiness_has_a_reason(document: Document | None, until: Until, want: str) -> None:
    """The rules are those of `kubectl rollout status` and `kubectl wait`, with the server's reason."""
    whole = document and {"kind": "Any", "metadata": {"generation": 2}, "spec": {"replicas": 2}, **document}
    assert lacking(whole, until) == want


@pytest.mark.parametrize("kind", ["CustomResourceDefinition", *REGISTRATIONS])
def test_trust_is_a_bundle_everywhere(kind: str) -> None:
    """Each webhook of a configuration needs a CA, and so does the conversion; a missing one is awaited."""
    name = "podgroups.scheduling.podium.dev" if kind == "CustomResourceDefinition" else "podium"
    document = _named("admission", kind, name)
    assert lacking(document, Until.TRUSTED).startswith("has no caBundle yet")
    text = json.dumps(document)
    whole = json.loads(text.replace('"port": 443', '"port": 443}, "caBundle": "x", "rest": {'))
    assert lacking(whole, Until.TRUSTED) == ""


_THERE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "uid": "1", "resourceVersion": "5", "managedFields": [], "labels": {"b": "c"}},
    "data": {"key": "old"},
}


def _changed(**fields: Any) -> Document:
    return {**copy.deepcopy(_THERE), **fields}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        (None, _THERE, Action.CREATED),
        (_THERE, _THERE, Action.UNCHANGED),
        (_THERE, _changed(metadata={"name": "a", "labels": {"b": "c"}}, status={}), Action.UNCHANGED),
        (_THERE, _changed(data={"key": "new"}), Action.CHANGED),
        (_THERE, _changed(metadata={"name": "a"}), Action.CHANGED),
    ],
    ids=["new", "same", "the server's notes differ", "a field", "a label went"],
)
def test_the_action_follows_from_the_object_before_and_after(
    before: Document | None, after: Document, want: Action
) -> None:
    assert action(before, after) is want


def test_a_difference_names_fields_and_leaves_out_the_servers_notes() -> None:
    """A changed object gives a unified diff, an unchanged one nothing."""
    key = Key("v1", "ConfigMap", "n", "a")
    new = _changed(data={"key": "new"})
    text = difference(InstallOutcome(key, Action.CHANGED, _THERE, new))
    lines = text.splitlines()
    assert lines[:2] == ["--- ConfigMap n/a (there)", "+++ ConfigMap n/a (new)"]
    assert [each for each in lines[2:] if each[0] in "+-"] == ["-  key: old", "+  key: new"]
    assert "managedFields" not in text
    assert difference(InstallOutcome(key, Action.UNCHANGED, _THERE, _THERE)) == ""
    made = difference(InstallOutcome(key, Action.CREATED, None, new)).splitlines()[3:]
    assert yaml.safe_load("\n".join(each[1:] for each in made))["data"] == {"key": "new"}


def test_a_difference_tells_no_secret() -> None:
    key = Key("v1", "Secret", "n", "a")
    secret = _changed(kind="Secret", data={"tls.key": "cHJpdmF0ZQ=="})
    for before, after in ((secret, None), (None, secret), (_changed(kind="Secret"), secret)):
        text = difference(InstallOutcome(key, Action.CHANGED, before, after))
        assert "tls.key: '***'" in text
        assert "cHJpdmF0ZQ" not in text


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (Key("v1", "Namespace", "", "a"), "/api/v1/namespaces/a"),
        (Key("apps/v1", "Deployment", "n", "a"), "/apis/apps/v1/namespaces/n/deployments/a"),
    ],
)
def test_paths(key: Key, path: str) -> None:
    assert key.path == path


# The objects that an uninstall finds: everything, with UIDs, and some groups.
def _found() -> list[Document]:
    found = [copy.deepcopy(each) for each in manifests("scheduler", None)]
    found += [
        {
            "apiVersion": key.api_version,
            "kind": key.kind,
            "metadata": {"namespace": key.namespace, "name": key.name},
        }
        for key in uninstall.installed()[len(found) :]
    ]
    for number, each in enumerate(found):
        each["metadata"]["uid"] = f"uid-{number}"
    return found


def _resources(namespace: str = "team", *finalizers: str) -> dict[str, list[Document]]:
    group = {"metadata": {"namespace": namespace, "name": "train", "finalizers": list(finalizers)}}
    return {
        "podgroups.scheduling.podium.dev": [group],
        "compositepodgroups.scheduling.podium.dev": [],
        "workloads.scheduling.podium.dev": [],
        "preemptionrecords.scheduling.podium.dev": [],
    }


def _order(planned: uninstall.UninstallPlan) -> list[str]:
    """Return the deleted kinds, and the other steps, in order."""
    order = []
    for step in planned.steps:
        if isinstance(step, uninstall.DeleteStep):
            order += list(dict.fromkeys(key.kind for key, _ in step.objects))
        else:
            order.append(type(step).__name__)
    return order


@pytest.mark.parametrize("delete_groups", [False, True])
def test_removal_refuses_no_write_and_restores_no_object(delete_groups: bool) -> None:
    """The order is registration, v1alpha2 before its converter, reconciler before finalizers, policy."""
    planned = uninstall.plan_uninstall(
        _found(), _resources("team", FINALIZER), {}, delete_groups=delete_groups
    )
    order = _order(planned)
    assert order[:2] == list(REGISTRATIONS)
    parts = ("Close", "Deployment", "ReleaseStep", "ClusterRole", "Namespace")
    places = [order.index(each) for each in parts]
    assert places == sorted(places)
    assert order[-2:] == ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"]
    assert ("CustomResourceDefinition" in order) == delete_groups
    assert len(planned.kept) == (0 if delete_groups else 4)
    removed = [
        key for step in planned.steps if isinstance(step, uninstall.DeleteStep) for key, _ in step.objects
    ]
    definitions = [key_of(each) for each in _found() if each["kind"] == "CustomResourceDefinition"]
    expected = {key_of(each) for each in _found()} - (set() if delete_groups else set(definitions))
    assert len(removed) == len(set(removed))
    assert set(removed) == expected


@pytest.mark.parametrize(
    ("namespace", "delete_groups", "kept"),
    [("podium-system", False, True), ("podium-system", True, False), ("team", False, False)],
)
def test_the_namespace_stays_with_what_it_holds(namespace: str, delete_groups: bool, kept: bool) -> None:
    """Custom resources in it, such as the scheduler's history, are data."""
    planned = uninstall.plan_uninstall(_found(), _resources(namespace), {}, delete_groups=delete_groups)
    assert ("Namespace" in _order(planned)) is not kept
    assert any(each.startswith("Namespace podium-system") for each in planned.kept) is kept


def _definitions() -> list[Document]:
    return [uninstall.closed(each) for each in _found() if each["kind"] == "CustomResourceDefinition"]


_OURS, _NATIVE = "/apis/scheduling.podium.dev/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1beta1/podgroups"


@pytest.mark.parametrize(
    ("finalizers", "native", "delete_groups", "want"),
    [
        pytest.param([], 0, False, [], id="nothing is left to do"),
        pytest.param(["theirs"], 0, False, [], id="another's finalizer"),
        pytest.param(["theirs", FINALIZER], 0, False, [uninstall.ReleaseStep((_OURS,), 1)], id="ours"),
        pytest.param(
            [], 3, False, [uninstall.Retract((_NATIVE, _OURS), 3)], id="native groups say something"
        ),
        pytest.param([], 3, True, [uninstall.Retract((_NATIVE,), 3)], id="and Podium's go"),
    ],
)
def test_conditions_and_finalizers_are_removed_from_groups(
    finalizers: list[str], native: int, delete_groups: bool, want: list[uninstall.Step]
) -> None:
    """The stored versions list them; without running processes only the found ones are removed, once."""
    resources = _resources("team", *finalizers)
    planned = uninstall.plan_uninstall(
        _definitions(), resources, {_NATIVE: native}, delete_groups=delete_groups
    )
    assert [each for each in planned.steps if not isinstance(each, uninstall.DeleteStep)] == want
    if not delete_groups:
        assert "CustomResourceDefinition podgroups.scheduling.podium.dev with 1 objects" in planned.kept


def test_conditions_written_during_removal_are_removed() -> None:
    """If processes run, their conditions are removed after they are gone, even if none was found before."""
    order = _order(uninstall.plan_uninstall(_found(), _resources(), {_NATIVE: 0}, delete_groups=False))
    assert [each for each in order if each in ("Deployment", "ReleaseStep", "Retract")] == [
        "Deployment",
        "ReleaseStep",
        "Retract",
    ]


_DIFFER = {"type": "PodsNotMatchingPriority", "status": "True"}
_WAS = {"type": "PodGroupInitiallyScheduled", "status": "True"}
_WAITS = {"type": "PodGroupScheduled", "status": "False"}
_GOES = {"type": "DisruptionTarget", "status": "True"}


def _group_with(*by: tuple[str, str, list[dict[str, str]]]) -> Document:
    """Return a group with conditions, each with the manager and the operation that wrote it."""
    fields = [
        {
            "manager": manager,
            "operation": operation,
            "subresource": "status",
            "fieldsV1": {
                "f:status": {"f:conditions": {_key(each): {name: {} for name in _FIELDS} for each in owned}}
            },
        }
        for manager, operation, owned in by
    ]
    conditions = [{**each, "theirs": "x"} for _, _, owned in by for each in owned]
    return {"metadata": {"managedFields": fields}, "status": {"conditions": conditions}}


_FIELDS = (".", "f:type", "f:status")


def _key(condition: dict[str, str]) -> str:
    return f"k:{json.dumps({'type': condition['type']}, separators=(',', ':'))}"


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param({"metadata": {}}, None, id="nothing"),
        pytest.param(
            _group_with((CONTROLLER_MANAGER, "Apply", [_DIFFER])),
            (CONTROLLER_MANAGER, []),
            id="its pods differ",
        ),
        pytest.param(
            _group_with((SCHEDULER_MANAGER, "Apply", [_WAITS])), (SCHEDULER_MANAGER, []), id="it waits"
        ),
        pytest.param(_group_with((SCHEDULER_MANAGER, "Apply", [_WAS])), None, id="it was scheduled"),
        pytest.param(
            _group_with((SCHEDULER_MANAGER, "Apply", [_WAS, _GOES])),
            (SCHEDULER_MANAGER, [_WAS]),
            id="it was scheduled and is being evicted",
        ),
        pytest.param(
            _group_with((SCHEDULER_MANAGER, "Apply", [_GOES]), (CONTROLLER_MANAGER, "Apply", [_DIFFER])),
            (CONTROLLER_MANAGER, []),
            id="conditions of two managers: one after the other",
        ),
        pytest.param(
            _group_with(("kube-scheduler", "Update", [_WAITS, _GOES])),
            None,
            id="conditions of another manager",
        ),
        pytest.param(
            _group_with((CONTROLLER_MANAGER, "Update", [_DIFFER])),
            None,
            id="an update under the manager name of Podium",
        ),
        pytest.param(
            {
                **_group_with(("kube-scheduler", "Update", [_WAITS])),
                "metadata": {
                    "managedFields": [
                        {
                            "manager": SCHEDULER_MANAGER,
                            "operation": "Apply",
                            "subresource": "status",
                            "fieldsV1": {"f:status": {}},
                        }
                    ]
                },
            },
            None,
            id="what was ours was taken back, as an empty status",
        ),
    ],
)
def test_own_condition_fields_are_removed_from_a_group(
    group: Document, want: tuple[str, list[dict[str, str]]] | None
) -> None:
    """All fields of our applies are removed, except PodGroupScheduled, which stays."""
    assert uninstall.outdated(group) == want


class _Pages:
    """A server with two items a page."""

    async def get(self, path: str, **query: str) -> bytes:
        assert (path, query["limit"]) == (_NATIVE, "500")
        begin = int(query.get("continue", 0))
        metadata = {"continue": str(begin + 2)} if begin < 4 else {}
        return json.dumps({"metadata": metadata, "items": [begin, begin + 1]}).encode()


async def test_lists_are_read_by_pages() -> None:
    connection: Any = _Pages()
    found: list[Any] = [each async for each in installing.items(connection, _NATIVE)]
    assert found == list(range(6))


def test_closed_is_stored_and_not_converted() -> None:
    """Nothing else of a definition changes."""
    definition = _named("admission", "CustomResourceDefinition", "podgroups.scheduling.podium.dev")
    closed = uninstall.closed(definition)
    assert [(each["name"], each["served"]) for each in closed["spec"]["versions"]] == [
        ("v1alpha2", False),
        ("v1beta1", True),
    ]
    assert closed["spec"]["conversion"] == {"strategy": "None"}
    assert objects_path(closed) == "/apis/scheduling.podium.dev/v1beta1/podgroups"
    assert [each["schema"] for each in closed["spec"]["versions"]] == [
        each["schema"] for each in definition["spec"]["versions"]
    ]


def test_the_plan_is_readable() -> None:
    """Each object has a line, in the words of the confirmation."""
    planned = uninstall.plan_uninstall(_found(), _resources("team", FINALIZER), {}, delete_groups=True)
    lines = "\n".join(map(str, planned.steps)).splitlines()
    assert lines[0] == "delete MutatingWebhookConfiguration podium"
    assert (
        "serve CustomResourceDefinition podgroups.scheduling.podium.dev in its stored version only" in lines
    )
    assert f"release groups from the finalizer {FINALIZER} (1 now)" in lines


def _versions(definition: Document) -> dict[str, tuple[bool, bool]]:
    return {each["name"]: (each["served"], each["storage"]) for each in definition["spec"]["versions"]}


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ({"v1alpha2": (True, False), "v1beta1": (True, True)}, {}),
        # Converted by a webhook that does not know it.
        ({"v1beta1": (True, True)}, {"v1alpha2": (False, False)}),
        # As an uninstall leaves it.
        ({"v1alpha2": (False, False), "v1beta1": (True, True)}, {"v1alpha2": (False, False)}),
        (
            {"v1alpha1": (True, True)},
            {"v1alpha1": (True, False), "v1alpha2": (False, False), "v1beta1": (False, True)},
        ),
    ],
    ids=["the same", "one is new", "one was closed", "all others"],
)
def test_meanwhile_what_was_served_is(
    there: dict[str, tuple[bool, bool]], want: dict[str, tuple[bool, bool]]
) -> None:
    """The definition first serves the old versions and stores the new one, and is final at the end."""
    definition = _named("admission", "CustomResourceDefinition", "podgroups.scheduling.podium.dev")
    meant = {"v1alpha2": (True, False), "v1beta1": (True, True)}
    assert _versions(definition) == meant
    before = copy.deepcopy(definition)
    before["spec"]["versions"] = [
        {**definition["spec"]["versions"][0], "name": name, "served": served, "storage": storage}
        for name, (served, storage) in there.items()
    ]
    assert _versions(bridging(definition, before)) == {**meant, **want}
    steps = [
        each.document
        for each in plan_install([definition], {key_of(before): before})
        if isinstance(each, Apply)
    ]
    assert [_versions(each) for each in steps] == ([{**meant, **want}] if want else []) + [meant]


def test_running_processes_are_replaced_one_after_the_other() -> None:
    """The webhook comes first; a new Deployment starts with the others, last."""
    documents = manifests("scheduler", None)
    there = {key_of(each): each for each in documents if each["metadata"]["name"] != "podium-scheduler"}
    steps = [
        (type(each).__name__, key.name)
        for each in plan_install(documents, there)
        if isinstance(each, Apply | Await)
        and (key := key_of(each.document) if isinstance(each, Apply) else each.key).kind == "Deployment"
    ]
    assert steps == [
        (what, f"podium-{name}")
        for name in ("webhook", "controller", "scheduler")
        for what in ("Apply", "Await")
    ]


def test_obsolete_objects_are_deleted_last() -> None:
    """Old objects are removed when the new processes work."""
    steps = list(plan_install(manifests("admission", None), {}, [_THERE]))
    assert steps[-1] == RemoveObject(_THERE)
    assert not any(isinstance(each, RemoveObject) for each in steps[:-1])


def _noted(document: Document, fields: Document, **entry: str) -> Document:
    """Return an object with managedFields of our applies."""
    whole = {"manager": MANAGER, "operation": "Apply", **entry, "fieldsV1": fields}
    return {**document, "metadata": {**document["metadata"], "managedFields": [whole]}}


_IDENTITY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("fields", "more", "want"),
    [
        ({}, {}, {}),
        ({"f:data": {"f:key": {}}}, {}, {"data": {"key": "old"}}),
        ({}, {"f:data": {"f:key": {}}}, {"data": {"key": "old"}}),
        ({}, {"f:data": {"f:new": {}}}, {"data": {}}),
        ({"f:data": {}}, {}, {"data": {"key": "old", "theirs": "x"}}),
        (
            {"f:list": {'k:{"name":"b"}': {".": {}, "f:name": {}, "f:value": {}}}},
            {},
            {"list": [{"name": "b", "value": 2}]},
        ),
        ({"f:set": {'v:"y"': {}}}, {}, {"set": ["y"]}),
        ({"f:metadata": {"f:labels": {"f:b": {}}}}, {}, {"metadata": {"name": "a", "labels": {"b": "c"}}}),
    ],
    ids=["nothing", "ours", "taken", "added", "the whole", "an item by key", "an item", "a label"],
)
def test_own_fields_are_restored(fields: Document, more: Document, want: Document) -> None:
    """Our fields are restored, and fields that we have added are removed; others' fields stay."""
    before = _changed(
        data={"key": "old", "theirs": "x"},
        list=[{"name": "a", "value": 1}, {"name": "b", "value": 2, "theirs": True}],
        set=["x", "y"],
    )
    restored = restoring(_noted(before, fields), _noted(_changed(data={"key": "new"}), more))
    assert restored == {**_IDENTITY, **want}


def test_fields_of_other_managers_are_not_restored() -> None:
    """Such fields are of another manager, of an update, or of a subresource."""
    for entry in ({"manager": "kubectl"}, {"operation": "Update"}, {"subresource": "status"}):
        assert restoring(_noted(_THERE, {"f:data": {}}, **entry), None) == _IDENTITY


@pytest.mark.parametrize("kind", [*REGISTRATIONS, "CustomResourceDefinition"])
def test_a_refusal_after_a_trial_with_a_url_names_the_commands_that_help(kind: str) -> None:
    """The API server says only that exactly one of url or service is required."""
    wanted = next(each for each in manifests("admission", None) if each["kind"] == kind)
    there = copy.deepcopy(wanted)
    if kind in REGISTRATIONS:
        there["webhooks"] = [{"name": "x", "clientConfig": {"url": "https://127.0.0.1:9443/validate"}}]
    else:
        client = {"url": "https://127.0.0.1:9443/convert"}
        there["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    why = "exactly one of url or service is required"
    sentence, *commands = advice([InstallOutcome(key_of(wanted), Action.REFUSED, there, there, why)])
    assert sentence == (
        "a process with --register-url has registered the webhooks, and no object has a URL and a Service. "
        "Stop the process, run these two commands, and install again (docs/webhooks.md)"
    )
    kinds = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    assert commands == [
        f"kubectl delete --ignore-not-found {kinds} podium",
        f"kubectl replace -f {folder('manifests') / 'crds'}",
    ]


@pytest.mark.parametrize("before", [None, {"webhooks": None}, {"kind": "ClusterRole"}])
def test_another_refusal_has_other_advice(before: Document | None) -> None:
    key = key_of(next(each for each in manifests("admission", None) if each["kind"] == REGISTRATIONS[0]))
    there = None if before is None else {"kind": key.kind, **before}
    lines = advice([InstallOutcome(key, Action.REFUSED, there, there, "forbidden")])
    assert lines == ["for conflicts use --force-conflicts; for forbidden objects ask a cluster-admin"]
