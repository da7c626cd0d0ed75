"""Read Podium's own configuration files: one document each; unknown fields are errors with their place."""

from typing import Any, TypeVar

import pydantic

from podium.documents import yamldoc
from podium.documents.sources import InputFiles, read_documents
from podium.errors import PodiumError
from podium.rules.names import label_value, qualified_name

M = TypeVar("M", bound="Strict")


class Strict(pydantic.BaseModel):
    """A part of a file; unknown fields are errors."""

    model_config = pydantic.ConfigDict(extra="forbid")


def unquoted(value: Any) -> Any:
    """Return "off" for false, because a YAML reader turns `off` into a boolean."""
    return "off" if value is False else value


def node_label(text: str) -> str:
    """Return the text if it is a node label, KEY or KEY=VALUE. Raises ValueError."""
    key, equals, value = text.partition("=")
    complaints = qualified_name(key) + (label_value(value) if equals else [])
    if complaints:
        raise ValueError(f"{text!r} is not a label, KEY or KEY=VALUE: {complaints[0]}")
    return text


def read_config(path: str, model: type[M]) -> M:
    """Return a file as `model`. Raises PodiumError for a wrong kind, several documents or a wrong field."""
    documents = list(read_documents(InputFiles([path])))
    if len(documents) != 1:
        kind = model.model_fields["kind"].annotation
        expected = getattr(kind, "__args__", ("document",))[0]
        raise PodiumError(f"{path}: found {len(documents)} documents. Give one {expected}")
    document = documents[0]
    try:
        return model.model_validate(document.value())
    except pydantic.ValidationError as error:
        message, field = _first_error(error)
        raise document.error(message, field) from None


def config_of(where: str, text: str, model: type[M]) -> M:
    """Return a file's text as `model`. Raises PodiumError for invalid YAML or a wrong field."""
    try:
        # PyYAML's own loader has no limit of nesting, and ends the process at the end of the stack.
        values = list(yamldoc.load_all(text.encode(errors="replace"))) or [None]
        if len(values) > 1:
            raise PodiumError(f"{where}: found {len(values)} documents. Give one")
        return model.model_validate(values[0])
    except yamldoc.YamlError as error:
        raise PodiumError(f"{where}: not YAML: line {error.line}: {error.problem}") from None
    except pydantic.ValidationError as error:
        message, field = _first_error(error)
        raise PodiumError(f"{where}: {field}: {message}" if field else f"{where}: {message}") from None


def _first_error(error: pydantic.ValidationError) -> tuple[str, str]:
    """Return the first error, and its field."""
    first = error.errors()[0]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return first["msg"].removeprefix("Value error, "), "".join(steps).removeprefix(".")
