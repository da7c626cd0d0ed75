"""Reading Podium's own files: one document each; an unknown field is an error, and errors say where."""

from typing import Any, TypeVar

import pydantic

from podium.cli.inputs import read_documents
from podium.errors import PodiumError
from podium.rules.names import label_value, qualified_name
from podium.wording import one_line

M = TypeVar("M", bound="Strict")


class Strict(pydantic.BaseModel):
    """A part of a file, in which nothing may stand that we do not know."""

    model_config = pydantic.ConfigDict(extra="forbid")


def unquoted(value: Any) -> Any:
    """Take `off` for what it says: a YAML reader makes a boolean of it."""
    return "off" if value is False else value


def node_label(text: str) -> str:
    """Check that a text is a label of nodes, KEY or KEY=VALUE. Raises ValueError."""
    key, equals, value = text.partition("=")
    complaints = qualified_name(key) + (label_value(value) if equals else [])
    if complaints:
        raise ValueError(f"{text!r} is no label, KEY or KEY=VALUE: {complaints[0]}")
    return text


def read_config(path: str, model: type[M]) -> M:
    """Read a file. Raises PodiumError: it is something else, there are several, a field is wrong."""
    documents = list(read_documents([path]))
    if len(documents) != 1:
        kind = model.model_fields["kind"].annotation
        wanted = getattr(kind, "__args__", ("document",))[0]
        raise PodiumError(f"{path}: holds {len(documents)} documents; one {wanted} is wanted")
    document = documents[0]
    try:
        return model.model_validate(document.value())
    except pydantic.ValidationError as error:
        message, field = _first(error)
        raise document.error(message, field) from None


def config_of(where: str, text: str, model: type[M]) -> M:
    """Read a file's text. Raises PodiumError: it is no YAML, or a field is wrong."""
    import yaml  # noqa: PLC0415 - the modules of a command are imported for its --help, too

    try:
        return model.model_validate(yaml.load(text, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise PodiumError(f"{where}: not YAML: {one_line(str(error))}") from None
    except pydantic.ValidationError as error:
        message, field = _first(error)
        raise PodiumError(f"{where}: {field}: {message}" if field else f"{where}: {message}") from None


def _first(error: pydantic.ValidationError) -> tuple[str, str]:
    """Give what is wrong first, and in which field."""
    first = error.errors()[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return first["msg"].removeprefix("Value error, "), "".join(steps).removeprefix(".")
