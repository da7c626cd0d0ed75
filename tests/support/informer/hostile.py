"""Pods with one extreme field, as an API server would send them to a decoder."""

import json
from typing import Any, NamedTuple

DEEP = 5_000
# etcd's limit of 1.5 MiB, filled with a character that Go's encoder writes as six.
ESCAPED = r"\u003c" * (3 << 19)


class Case(NamedTuple):
    """A pod's text, the `name` that is read from it, and the `kept` parts of a pod that cannot be decoded.

    `kept` are the node, and the amounts that the first container requests.
    """

    id: str
    text: bytes
    decodable: bool = True
    kept: tuple[str, dict[str, Any]] | None = None


def pod(name: str, version: int = 7, **parts: Any) -> dict[str, Any]:
    """A bound pod that requests one cpu and one GPU."""
    metadata = {
        "name": name,
        "namespace": "evil",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        **parts.pop("metadata", {}),
    }
    requests = {"cpu": "1", "nvidia.com/gpu": "1"}
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        "nodeName": "n1",
        **parts.pop("spec", {}),
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}, **parts}


def text(obj: Any, **marks: str) -> bytes:
    """Write an object as JSON; each `"@mark"` in it becomes the text of that mark."""
    written = json.dumps(obj)
    for name, what in marks.items():
        written = written.replace(f'"@{name}"', what)
    return written.encode("utf-8", "surrogateescape")


def _with_env(value: str) -> bytes:
    env = [{"name": "A", "value": "@value"}]
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
    containers = [{"name": "c", "image": "i", "env": env, "resources": resources}]
    return text(pod("x", spec={"containers": containers}), value=f'"{value}"')


def _nested(opening: str, inner: str, closing: str) -> str:
    return opening * DEEP + inner + closing * DEEP


def _requesting(amount: str) -> bytes:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "@amount", "nvidia.com/gpu": "1"}}}]
    return text(pod("x", spec={"containers": containers}), amount=amount)


_FIELDS = [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": "@fields"}]
_MANAGED = pod("x", metadata={"managedFields": _FIELDS})
_DEEP = _nested("[", "1", "]")
_BESIDE = _nested("[", "[]," * 400_000 + "1", "]")
_WHOLE = ("n1", {"cpu": "1", "nvidia.com/gpu": "1"})
_CPU_UNKNOWN = ("n1", {"cpu": "[1]", "nvidia.com/gpu": "1"})

CASES = [
    Case("7.2 MB of escapes", _with_env(r"\u003c" * 1_200_000)),
    Case("all that etcd takes, escaped", _with_env(ESCAPED)),
    Case("managedFields nested 5,000 deep", text(_MANAGED, fields=_nested('{"f:a":', "{}", "}"))),
    Case("an unknown field nested 5,000 deep", text(pod("x", more="@it"), it=_DEEP)),
    Case("400,000 values beside a deep one", text(pod("x", more="@it"), it=_BESIDE)),
    Case("a lone high surrogate", _with_env(r"\ud800")),
    Case("a lone low surrogate", _with_env(r"\udc00 and \ud83d\ude00")),
    Case("an escaped backslash before what is no surrogate", _with_env(r"\\ud800 \ud800")),
    Case("no UTF-8 in a label", text(pod("x", metadata={"labels": {"a": "@v"}}), v='"\udcff"')),
    Case("no UTF-8 in a name", text(pod("x", metadata={"generateName": "@n"}), n='"\udcff-"')),
    Case("a NUL and a newline in a value", _with_env(r"\u0000\n")),
    Case("a line separator", _with_env("\u2028\u2029\u0085")),
    Case("a key twice", text(pod("x", spec={"nodeName": "@n"}), n='"n0","nodeName":"n1"')),
    Case("20,000 labels", text(pod("x", metadata={"labels": {f"k{n}": "v" for n in range(20_000)}}))),
    Case("a number with 5,000 digits in an unknown field", text(pod("x", more="@n"), n="9" * 5_000)),
    Case("an exponent past all numbers in an unknown field", text(pod("x", more="@n"), n="1e9999")),
    Case("a priority out of range", text(pod("x", spec={"priority": 2**31})), False, _WHOLE),
    Case("a priority that is a text", text(pod("x", spec={"priority": "high"})), False, _WHOLE),
    Case("a priority past all numbers", text(pod("x", spec={"priority": "@n"}), n="1e9999"), False, _WHOLE),
    Case("a label that is a number", text(pod("x", metadata={"labels": {"a": 5}})), False, _WHOLE),
    Case("labels that are a list", text(pod("x", metadata={"labels": [1]})), False, _WHOLE),
    Case("annotations that are a text", text(pod("x", metadata={"annotations": "a"})), False, _WHOLE),
    Case("a generation past 64 bits", text(pod("x", metadata={"generation": 2**70})), False, _WHOLE),
    Case("a status that is a list", text(pod("x", status=[])), False, _WHOLE),
    Case("a container that is a text", text(pod("x", spec={"initContainers": ["i"]})), False, _WHOLE),
    Case("an amount that is a list", _requesting("[1]"), False, _CPU_UNKNOWN),
    Case("containers that are a text", text(pod("x", spec={"containers": "c"})), False, ("n1", {})),
    Case("a spec that is a text", text(pod("x") | {"spec": "s"}), False, None),
    Case("a node that is a list", text(pod("x", spec={"nodeName": ["n1"]})), False, None),
    Case("deep, and a status that is a list", text(pod("x", more="@it", status=[]), it=_DEEP), False, _WHOLE),
]  # fmt: skip
