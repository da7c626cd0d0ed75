"""Click options that commands share: several options as one parameter, and parsed values."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from podium.errors import AmbiguousNameError, PodiumUsageError, QuestionError
from podium.plugins import missing_plugin

T = TypeVar("T")


def gathered(
    function: Callable[..., Any],
    options: Sequence[Callable[..., Any]],
    parameter: str,
    made: type[tuple[Any, ...]],
) -> Callable[..., Any]:
    """Add options as one parameter: a NamedTuple, `made`, whose fields have their names.

    A field without an option keeps its default.
    """
    names: tuple[str, ...] = made._fields  # type: ignore[attr-defined] # no type says "a NamedTuple"

    @functools.wraps(function)
    def gathering(*args: Any, **kwargs: Any) -> Any:
        values = {name: kwargs.pop(name) for name in names if name in kwargs}
        return function(*args, **kwargs, **{parameter: made(**values)})

    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), gathering)


class Parsed(click.ParamType[T]):
    """An option's type whose values are parsed by a function; its ValueError is a usage error."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Return the parsed value; one that is parsed already stays."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class AliasChoice(click.Choice[str]):
    """A choice that also takes other spellings of its values, such as kubectl's names of a kind."""

    def __init__(self, choices: Sequence[str], alias: Callable[[str], str]) -> None:
        super().__init__(choices)
        self._alias = alias

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value; one that is spelt otherwise becomes the choice that it means."""
        return super().convert(self._alias(value), param, ctx)


def minor_choice(minors: Iterable[str]) -> AliasChoice:
    """Return the type of an option for a Kubernetes minor, which also takes `v1.37` and `1.37.0`."""
    return AliasChoice(tuple(minors), lambda text: re.sub(r"^v?(1\.\d+)(\.\d+.*)?$", r"\1", text))


def _plugin(name: str) -> str:
    if problem := missing_plugin(name):
        raise ValueError(f"{problem}.")
    return name


plugin_option = click.option(
    "--plugin",
    "plugins",
    type=Parsed("NAME", _plugin),
    multiple=True,
    help="Installed plugin that counts too, beside those of the scheduler's configuration; repeatable.",
)


@contextmanager
def option_errors(words: Mapping[str, str]) -> Iterator[None]:
    """Convert a QuestionError of the block into a usage error.

    `words` has a sentence for each field with `{}` for the problem. A field without one is the option of its
    name.
    """
    try:
        yield
    except QuestionError as error:
        hint = ", or add -n NAMESPACE" if isinstance(error, AmbiguousNameError) else ""
        sentences = {error.field: f"--{error.field}: {{}}", **words}
        raise PodiumUsageError(f"{error.worded(sentences)}{hint}") from None
