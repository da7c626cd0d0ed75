"""Every reader gives one answer to a deep text, whatever the depth and the interpreter."""

import functools
import gzip
import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.rules.scene import GANG, group, pod
from tests.support.webhooks.reviews import asked

from podium.api.convert import KEPT, restorable
from podium.api.core import Pod
from podium.api.reads import MANIFEST_READS
from podium.api.schedulable import SCHEDULING_READS
from podium.cli.config.policyfile import PolicyModel
from podium.documents.configfile import config_of
from podium.documents.document import Document, Lines
from podium.documents.split import split
from podium.errors import PodiumError
from podium.jsontext import MAX_DEPTH, TOO_DEEP
from podium.kube import reading
from podium.kube.discovery import Served
from podium.rules.podiumrule import AdmissionPhase
from podium.webhooks import bindings, review
from podium.webhooks.conversion import convert_review

# Above MAX_DEPTH, around the limits of msgspec in Python 3.11, 3.12 and 3.13, and above that of any.
FAR = [300, 940, 990, 1_500, 9_990, 10_010, 100_000, 1_000_000]
HERE = "@"
MANAGED = {"name": "g", "namespace": "a", "managedFields": [{"manager": "m", "fieldsV1": HERE}]}
V1, V2 = "scheduling.podium.dev/v1beta1", "scheduling.podium.dev/v1alpha2"


def deep(value: Any, levels: int, inside: str = "") -> bytes:
    """Return JSON with a list of this depth in place of HERE."""
    nested = "[" * levels + inside + "]" * levels
    return json.dumps(value).replace(f'"{HERE}"', nested).encode()


def reviewed(document: Any, levels: int, inside: str = "") -> Any:
    return review.decode(deep(asked(document), levels, inside), AdmissionPhase.VALIDATE).request


def converted(levels: int, **parts: Any) -> Any:
    one = {"apiVersion": V2, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}, **parts}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": V1, "objects": [one]},
    }
    return json.loads(convert_review(deep(body, levels)))["response"]


def watched(kind: str, document: Any, levels: int) -> Any:
    (key, read) = next(each for each in SCHEDULING_READS.items() if each[0][1] == kind)
    line = deep({"type": "ADDED", "object": document}, levels) + b"\n"
    reader = reading.Reader(Served(*key, read, "things", namespaced=True), lambda value: value)
    return reader.read(reading.event(line).object)


def documents(text: bytes, *, live: bool = False) -> list[Document]:
    return list(split(text, "f", live=live))


def listed(levels: int) -> Any:
    body = deep({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": MANAGED}]}, levels)
    (one,) = documents(body, live=True)
    return one.read(Pod), one.value()


def filed(levels: int) -> Any:
    """The fields that a command reads, and the line of a field behind the deep value."""
    text = b"\n" + deep({"metadata": MANAGED, "kind": "Pod", "apiVersion": "v1", "spec": {}}, levels)
    text = text.replace(b'"spec"', b'\n"spec"') + b"\n" + text
    first, second = documents(text)
    return first.read(Pod).metadata.name, second.read(Pod), Lines(memoryview(text)).line(2, "spec")


def unpacked(levels: int) -> Any:
    (one,) = documents(gzip.compress(deep({"apiVersion": "v1", "kind": "Pod", "x": HERE}, levels), 1))
    return one.read(Pod)


def whole(levels: int) -> Any:
    (one,) = documents(deep({"apiVersion": "v1", "kind": "Pod", "x": HERE}, levels))
    return one.value()


def kept(levels: int) -> Any:
    text = deep({"preemptionPolicy": "Never", "x": HERE}, levels).decode()
    return restorable({"kind": "PodGroup", "metadata": {"annotations": {KEPT: text}}})


CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": HERE}}]}},
}
JOB = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": {"x": HERE}}


def job(levels: int) -> Any:
    (one,) = documents(deep(JOB, levels))
    return one.read(MANIFEST_READS[one.apiVersion, one.kind].type)


# By name: a reader, and a part of its answer, or of its error.
READERS: dict[str, tuple[Callable[[int], Any], str]] = {
    "a review of a pod": (lambda levels: reviewed(pod() | {"metadata": MANAGED}, levels), "'name': 'g'"),
    "a review of a group": (lambda levels: reviewed(group({**GANG, "x": HERE}), levels), "'minCount'"),
    "a review of other types": (
        lambda levels: reviewed(pod() | {"metadata": {"labels": HERE, "name": "g"}}, levels),
        "'name': 'g'",
    ),
    "a review of many deep values": (
        lambda levels: reviewed(group({**GANG, "x": HERE}), levels, "0" + ",0" * 200_000),
        "'minCount'",
    ),
    "a bind": (
        lambda levels: bindings.decode(
            deep(asked({"apiVersion": "v1", "kind": "Binding", "metadata": {"uid": "u"}, "x": HERE}), levels)
        ),
        "pod='u'",
    ),
    "a conversion with deep metadata": (lambda levels: converted(levels, metadata=MANAGED), "Success"),
    "a conversion with a deep spec": (
        lambda levels: converted(levels, spec={"x": HERE}),
        f"cannot convert PodGroup g: spec is {TOO_DEEP}",
    ),
    "a conversion with a deep kind": (
        lambda levels: converted(levels, kind=HERE),
        f"not a ConversionReview: an object's kind is {TOO_DEEP}",
    ),
    "a watched pod": (lambda levels: watched("Pod", pod() | {"metadata": MANAGED}, levels), "name='g'"),
    "a watched claim": (lambda levels: watched("ResourceClaim", CLAIM, levels), "driver='d'"),
    "a page": (listed, "'name': 'g'"),
    "a pod of a file": (filed, "('g', Pod("),
    "a pod of a gzip file": (unpacked, "Pod("),
    "a whole object of a file": (whole, f"f, document 1, line 1: {TOO_DEEP}"),
    "an owner of pods in a file": (job, f"f, document 1, line 1: {TOO_DEEP}"),
    "a file that is cut off": (
        lambda levels: documents(b'{"apiVersion":' + b"[" * levels),
        f"f, document 1, line 1: {TOO_DEEP}",
    ),
    "a list in a file": (
        lambda levels: documents(b"[" * levels + b"]" * levels),
        "f, document 1, line 1: expected a Kubernetes object, got list",
    ),
    "an annotation": (kept, "{}"),
    "YAML, flow": (
        lambda levels: documents(b"a: " + b"[" * levels),
        f"malformed YAML: nested more than {MAX_DEPTH} deep",
    ),
    "YAML, blocks": (
        lambda levels: documents(b"a:\n " + b"- " * levels),
        f"malformed YAML: nested more than {MAX_DEPTH} deep",
    ),
    "a configuration": (
        lambda levels: config_of("f", "a: " + "[" * levels, PolicyModel),
        f"nested more than {MAX_DEPTH} deep",
    ),
}


def answer(name: str, levels: int) -> str:
    try:
        return repr(READERS[name][0](levels))
    except PodiumError as error:
        return f"{error}"


@functools.cache
def nearest(name: str) -> str:
    return answer(name, 260)


@pytest.mark.parametrize("levels", FAR)
@pytest.mark.parametrize("name", READERS)
def test_any_depth_above_the_limit_has_the_same_answer(name: str, levels: int) -> None:
    assert READERS[name][1] in nearest(name)
    assert "\n" not in nearest(name)
    assert answer(name, levels) == nearest(name)


# The most levels of the list that each accepts within a value of MAX_DEPTH levels.
AT_THE_LIMIT: dict[str, tuple[Callable[[int], Any], int]] = {
    "a whole object of a file": (whole, MAX_DEPTH - 1),
    "an owner of pods in a file": (job, MAX_DEPTH - 2),
    "a conversion's spec": (lambda levels: converted(levels, spec={"disruptionMode": HERE}), MAX_DEPTH - 1),
    "YAML": (
        lambda levels: documents(b"apiVersion: v1\nkind: A\nb: " + b"[" * levels + b"]" * levels),
        MAX_DEPTH - 1,
    ),
}


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_the_limit_is_the_number(name: str) -> None:
    read, most = AT_THE_LIMIT[name]
    for levels, refused in ((most, False), (most + 1, True)):
        try:
            answered = repr(read(levels))
        except PodiumError as error:
            answered = str(error)
        assert (TOO_DEEP in answered or f"more than {MAX_DEPTH} deep" in answered) == refused


@pytest.mark.parametrize("name", READERS)
def test_a_deep_text_needs_little_of_the_stack(name: str) -> None:
    """A caller may have used 400 of the 1,000 frames of Python 3.11."""

    def at_depth(frames: int) -> str:
        return at_depth(frames - 1) if frames else answer(name, 5_000)

    assert at_depth(400 - len(inspect.stack(0))) == nearest(name)
