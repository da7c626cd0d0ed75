"""The reference of docs/configuration.md: files, options, labels, annotations and the environment.

Fields and their descriptions come from the models that read the files, options from the commands. Keys of
labels and annotations come from the constants in the code. The descriptions of the environment are here; a
test finds the variables that the code reads.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import click
from tools.docs.sources import Constant, constants, fields, modules

from podium.answers.schedulerfile import SchedulerModel, WhatIfModel
from podium.api import storage
from podium.cli.config.auditfile import AuditModel, IgnoreModel
from podium.cli.config.policyfile import AllowanceModel, PolicyModel
from podium.cli.main import command as podium
from podium.controllers.process import ControllerModel
from podium.documents.configfile import Strict

ENVELOPE = ("apiVersion", "kind")
PROCESSES = ("webhook", "controller", "scheduler")


class File(NamedTuple):
    """A kind of file: its reader, its model, and the models of its parts by their field."""

    read_by: str
    model: type[Strict]
    parts: Mapping[str, type[Strict]] = {}


FILES = (
    File("`podium scheduler --config`", SchedulerModel),
    File("`podium controller --config`", ControllerModel),
    File(
        "`podium webhook`, `admit` and `manifests` with `--config`", PolicyModel, {"allow[]": AllowanceModel}
    ),
    File("`podium audit --config`", AuditModel, {"ignores[]": IgnoreModel}),
    File("`podium whatif` and `why` with `--config`", WhatIfModel),
)
ENVIRONMENT = {
    "PODIUM_CONFIG": "configuration file of `podium audit`, if `--config` names none",
    "KUBECONFIG": "files to read instead of `~/.kube/config`, if `--kubeconfig` names none",
    "KUBERNETES_SERVICE_HOST": "set in a pod: its service account is used where no kubeconfig is named",
    "POD_NAME": "the name of a replica in its Lease and its log; else the host's name",
    "POD_IP": "the address at which other replicas of the webhook reach this one",
    "FORCE_COLOR": "if it is not empty, colours without a terminal too, as in CI logs; `NO_COLOR` wins",
    "NO_COLOR": "if it is not empty, no colours",
    "TERM": "`dumb`: neither colours nor the terminal's width",
}
KEY = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/(?!v\d+((alpha|beta)\d+)?$)[A-Za-z0-9._-]*")
OWN = ".podium.dev/"
# Texts that are no key of a label or annotation, or that no user may set.
OTHERS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "k8s.io/initial-events-end",
    storage.NO_PROVISIONER,
)


def reference() -> str:
    """Return the whole reference in Markdown.

    Raises ValueError for a field without a description.
    """
    parts = [*(_file(file) for file in FILES), *(_options(name) for name in PROCESSES), *_keys()]
    return "\n".join([*parts, _environment()])


def _file(file: File) -> str:
    (name,) = get_args(file.model.model_fields["kind"].annotation)
    text = (
        f"### {name}\n\nRead by {file.read_by}.\n\n| Field | Value | Default | Meaning |\n|---|---|---|---|\n"
    )
    text += "".join(_fields(file.model, ""))
    for place, model in file.parts.items():
        text += "".join(_fields(model, f"{place}."))
    return text


def _fields(model: type[Strict], prefix: str) -> Iterator[str]:
    schema = model.model_json_schema()
    words = fields(model)
    for name, field in schema["properties"].items():
        if name not in ENVELOPE:
            default = f"`{json.dumps(field['default'])}`" if "default" in field else "required"
            value = _value(field, schema.get("$defs", {}))
            yield f"| `{prefix}{name}` | {value} | {default} | {words[name]} |\n"


def _value(schema: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return a JSON schema of a value in words."""
    if "$ref" in schema:
        return _value(known[schema["$ref"].rpartition("/")[2]], known)
    if "anyOf" in schema:
        return " or ".join(_value(option, known) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "text")
    if kind == "array":
        return f"list of {_value(schema['items'], known)}"
    if isinstance(of := schema.get("additionalProperties"), Mapping):
        return f"by {schema.get('x-key', 'rule')} {_value(of, known)}"
    bounds = [f"from {schema['minimum']}"] if "minimum" in schema else []
    bounds += [f"to {schema['maximum']}"] if "maximum" in schema else []
    named = {"string": "text", "object": "the fields below"}.get(kind, kind)
    return " ".join([schema.get("format", named), *bounds])


def _options(name: str) -> str:
    command = podium.get_command(click.Context(podium), name)
    assert command is not None
    rows = "".join(_option(option) for option in command.params if isinstance(option, click.Option))
    return f"### podium {name}\n\n| Option | Default | Meaning |\n|---|---|---|\n{rows}"


def _option(option: click.Option) -> str:
    usage, help_text = option.get_help_record(click.Context(podium)) or ("", "")
    default = re.search(r"\[default: ([^;\]]*)", help_text)
    meaning = re.sub(r"\s*\[.*", "", help_text)
    name = re.sub("(INTEGER|FLOAT) RANGE", "N", usage).replace("|", "\\|")
    return f"| `{name}` | {default[1] if default else ''} | {meaning} |\n"


def label_keys() -> list[Constant]:
    """Return the keys of labels, annotations and finalizers in the code, each once."""
    by_key = {
        constant.value: constant
        for module, source in modules()
        for constant in constants(module, source)
        if isinstance(constant.value, str) and KEY.fullmatch(constant.value) and constant.value not in OTHERS
    }
    return [by_key[key] for key in sorted(by_key)]


def _keys() -> Iterator[str]:
    own = [constant for constant in label_keys() if OWN in constant.value]
    foreign = [constant for constant in label_keys() if constant not in own]
    for title, some in (
        ("Labels, annotations and finalizers of Podium", own),
        ("Those of other projects that Podium reads", foreign),
    ):
        rows = ""
        for constant in some:
            if not constant.says:
                raise ValueError(f"{constant.module}.{constant.name} has no comment above it")
            rows += f"| `{constant.value}` | {constant.says} |\n"
        yield f"### {title}\n\n| Key | Meaning |\n|---|---|\n{rows}"


def _environment() -> str:
    rows = "".join(f"| `{name}` | {says} |\n" for name, says in ENVIRONMENT.items())
    return f"### Environment\n\n| Variable | Meaning |\n|---|---|\n{rows}"
