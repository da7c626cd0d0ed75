"""The Helm chart, derived from kustomize's builds, so that the install has one source.

A build without any toggle is compared with one build for each toggle. A document that only the latter has is
in an `if`, and so are the lines in which a document differs. The few values that are no toggles are holes in
known lines. Templates use the functions of Go's text/template, and of Helm's own only `fail` and `toJson`, so
a test can render them with that library. A user's value passes through `toJson`. Otherwise "12" would be a
number in YAML, and a million, a float in Helm, would be 1e+06.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from podium.documents.yamlwriter import dump_all

# The toggles of the values, each with its kustomize component.
TOGGLES = {
    "scheduler": "scheduler",
    "certManager": "cert-manager",
    "monitoring": "monitoring",
    "dashboard": "dashboard",
    "networkPolicy": "network-policy",
    "policyTwin": "policy-twin",
    "confinedBinds": "confined-binds",
}

# The fields of the scheduler's file that have values of their own.
SCHEDULER = ("preemption", "evictionsPerMinute", "reservedNodes")

_GUARD = (
    '{{- if ne .Release.Namespace "podium-system" }}'
    '{{ fail "podium is installed into podium-system, which is exempt by name: add -n podium-system" }}'
    "{{ end }}\n"
)


class Hole(NamedTuple):
    """The place of a value: the documents, the text without the value, and the text with it.

    The first two are patterns, of KIND/NAME and of a part of the text. In a document's name, PROCESS follows
    Podium's name.
    """

    document: str
    there: str
    template: str


_HOLES = (
    Hole(
        "Deployment/.*",
        r"image: podium:\S+",
        'image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"',
    ),
    Hole("Deployment/.*", r"replicas: 2", "replicas: {{ toJson .Values.replicas }}"),
    Hole(
        "Deployment/.*",
        r"resources:\n( {10,}\S.*\n)+",
        "resources: {{ toJson .Values.PROCESS.resources }}\n",
    ),
    *(
        Hole(
            "Deployment/.*",
            r"      priorityClassName: \S+\n",
            rf"\g<0>{{{{- with .Values.{each} }}}}\n      {each}: {{{{ toJson . }}}}\n{{{{- end }}}}\n",
        )
        for each in ("imagePullSecrets", "nodeSelector", "tolerations")
    ),
    Hole(
        "Certificate/.*",
        r"kind: ClusterIssuer\n    name: podium",
        "kind: {{ .Values.certManager.issuer.kind }}\n    name: {{ toJson .Values.certManager.issuer.name }}",
    ),
    Hole(
        "NetworkPolicy/podium-webhook",
        r"(    - ipBlock:\n        cidr: \S+\n)+",
        "{{- range .Values.networkPolicy.apiServers }}\n"
        "    - ipBlock:\n        cidr: {{ toJson . }}\n{{- end }}\n",
    ),
    Hole(
        "ConfigMap/podium-(webhook|controller|scheduler)",
        r"    kind: \w+\n",
        r"\g<0>{{- range $name, $value := .Values.PROCESS.configuration }}\n"
        r"    {{ $name }}: {{ toJson $value }}\n{{- end }}\n",
    ),
    # Admission and scheduler must agree on it.
    Hole(
        "ConfigMap/podium-webhook",
        r"reservedNodes: \S+",
        "reservedNodes: {{ toJson .Values.scheduler.reservedNodes }}",
    ),
    *(
        Hole(
            "ConfigMap/podium-scheduler",
            rf"{each}: \S+",
            f"{each}: {{{{ toJson .Values.scheduler.{each} }}}}",
        )
        for each in SCHEDULER
    ),
)


class Identity(NamedTuple):
    """The kind, namespace and name that identify a document."""

    kind: str
    namespace: str
    name: str


def documents(build: str) -> dict[Identity, str]:
    """Return the documents of a build as text.

    Raises ValueError if two are the same object.
    """
    found: dict[Identity, str] = {}
    for text in re.split(r"^---\n", build, flags=re.MULTILINE):
        read = yaml.safe_load(text)
        identity = Identity(read["kind"], read["metadata"].get("namespace", ""), read["metadata"]["name"])
        if identity in found:
            raise ValueError(f"{identity} is there twice")
        found[identity] = text
    return found


def templates(plain: str, variants: Mapping[str, str]) -> dict[str, str]:
    """Return the templates by file name; `variants` are the builds with one toggle each."""
    without = documents(plain)
    with_one = {toggle: documents(build) for toggle, build in variants.items()}
    files = {
        f"{toggle}.yaml": f"{{{{- if .Values.{toggle}.enabled }}}}\n"
        + "---\n".join(_filled(each, text) for each, text in found.items() if each not in without)
        + "{{- end }}\n"
        for toggle, found in with_one.items()
    }
    written = [_document(each, text, with_one) for each, text in without.items()]
    return {"podium.yaml": _GUARD + "".join(written), **files}


def values(schema: Mapping[str, Any]) -> str:
    """Return values.yaml: the schema's default values, each below its description."""
    parts = []
    for name, about in schema["properties"].items():
        written = dump_all([{name: _default(about)}])
        parts.append(f"# {about['description']}\n{written}")
    return "\n".join(parts)


def chart(version: str) -> str:
    """Return Chart.yaml for a version of Podium, which is the chart's version too."""
    about = {
        "apiVersion": "v2",
        "name": "podium",
        "description": "Admission, priority and preemption for Kubernetes workloads (Workload and PodGroup)",
        "type": "application",
        "version": version,
        "appVersion": version,
    }
    return dump_all([about])


def _default(about: Mapping[str, Any]) -> Any:
    if "default" in about:
        return about["default"]
    return {name: _default(each) for name, each in about["properties"].items()}


def _document(each: Identity, text: str, variants: Mapping[str, Mapping[Identity, str]]) -> str:
    """Return the text of a document without any toggle.

    Raises ValueError if two toggles change one place.
    """
    changed = {toggle: found.get(each) for toggle, found in variants.items() if found.get(each) != text}
    body = _filled(each, text)
    absent = [toggle for toggle, other in changed.items() if other is None]
    if absent and len(changed) > 1:
        raise ValueError(f"{', '.join(changed)} change {each}, and {', '.join(absent)} removes it")
    for toggle in absent:
        return f"{{{{- if not .Values.{toggle}.enabled }}}}\n---\n{body}{{{{- end }}}}\n"
    with_one = {
        f".Values.{toggle}.enabled": _filled(each, other) for toggle, other in changed.items() if other
    }
    body = "".join(_merged(body, with_one))
    if each.kind == "Namespace":
        return f"{{{{- if .Values.namespace.create }}}}\n---\n{body}{{{{- end }}}}\n"
    return f"---\n{body}"


def _filled(each: Identity, text: str) -> str:
    """Escape template syntax and insert the holes.

    Raises ValueError if a hole has no place.
    """
    escaped = text.replace("{{", '{{ "{{" }}')
    for hole in _HOLES:
        if re.fullmatch(hole.document, f"{each.kind}/{each.name}"):
            template = hole.template.replace("PROCESS", each.name.removeprefix("podium-"))
            escaped, count = re.subn(hole.there, template, escaped)
            if count != 1:
                raise ValueError(f"{each}: {hole.there} is there {count} times")
    return escaped


class _Edit(NamedTuple):
    """Lines `begin` to `end` of a text, which `lines` replace under a condition."""

    begin: int
    end: int
    lines: list[str]
    condition: str


def _merged(off: str, variants: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a text; where a variant differs, both, between if and else.

    `variants` are the texts by the conditions under which they hold. Raises ValueError if two differ in one
    place.
    """
    old, at = off.splitlines(keepends=True), 0
    for edit in sorted(each for condition, on in variants.items() for each in _edits(old, on, condition)):
        if edit.begin < at:
            raise ValueError(f"{edit.condition} and another toggle change {''.join(old[edit.begin : at])}")
        yield from old[at : edit.begin]
        yield f"{{{{- if {edit.condition} }}}}\n"
        yield from edit.lines
        if edit.begin < edit.end:
            yield "{{- else }}\n"
            yield from old[edit.begin : edit.end]
        yield "{{- end }}\n"
        at = edit.end
    yield from old[at:]


def _edits(old: list[str], on: str, condition: str) -> Iterator[_Edit]:
    new = on.splitlines(keepends=True)
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Edit(a, b, new[c:d], condition)


def read_schema(text: str) -> dict[str, Any]:
    """Read values.schema.json."""
    read = json.loads(text)
    assert isinstance(read, dict)
    return read
