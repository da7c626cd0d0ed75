"""The API server's knowledge of a kind as data: each field's Go type, gate and checks, in the server's order.

One table per served version drives four steps that must agree. These are decoding (`podium.rules.decoding`),
the drop of fields whose gate is off in a strategy, validation, and the schema of Podium's own resource
(`podium.crds.schema`). Validation has the server's ratcheting (a field equal to the stored one is not checked
again) and short-circuits. Documents here are in canonical form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from podium.rules.fields import FieldError

Document = dict[str, Any]


class WriteContext(NamedTuple):
    """The further input of a check beside the values: whether this is an update, and which gates are on."""

    update: bool
    gates: frozenset[str]


# The function of a check of one field or struct: (path, new, old, write) to errors; None continues. In
# `stops` an empty list ends the field without an error.
CheckFunction = Callable[[str, Any, Any, WriteContext], Sequence[FieldError] | None]


class Fact(Enum):
    """A property of a field or struct that a check requires and a schema can express."""

    REQUIRED = auto()
    AT_LEAST_ONE = auto()
    MAXIMUM = auto()
    MAX_ITEMS = auto()
    VALUES = auto()
    SYNTAX = auto()
    """The function of `podium.rules.names` that a text satisfies."""
    MEMBERS = auto()
    """The fields of a union."""
    IMMUTABLE = auto()
    SET_ONCE = auto()
    """Neither set nor unset by an update."""
    SAME_ITEMS = auto()
    """The keys of a list are the same after an update; the value is the field of the key."""


class FieldCheck(NamedTuple):
    """A check, and the fact that it requires with its value; no fact if a schema cannot express the check."""

    run: CheckFunction
    fact: Fact | None = None
    value: Any = True


def _stop_at_none(_path: str, new: Any, _old: Any, _write: WriteContext) -> Sequence[FieldError] | None:
    return [] if new is None else None


# Stops at an absent value, which needs no further check.
optional = FieldCheck(_stop_at_none)


def _facts(checks: Sequence[FieldCheck]) -> Mapping[Fact, Any]:
    return {check.fact: check.value for check in checks if check.fact is not None}


@dataclass(eq=False)
class Field:
    """A field: its Go type, the treatment of its zero value, its gate and its checks.

    `pointer` keeps a zero value that was written; `always` writes the field even if it is zero or nil.
    `stops` are all evaluated, and any of them ends the field; `checks` and those of the shape follow.
    The result of `default` replaces an absent value before the checks. `description` is for the schema.
    """

    name: str
    read: "Reader"
    go: str
    _: KW_ONLY
    pointer: bool = False
    always: bool = False
    zero: Any = None
    shape: "StructSchema | None" = None
    many: bool = False
    key: str = ""
    gate: str = ""
    stops: Sequence[FieldCheck] = ()
    checks: Sequence[FieldCheck] = ()
    default: Callable[[], Any] | None = None
    description: str = ""

    def __post_init__(self) -> None:
        self.optional = optional in self.stops
        self.facts = _facts((*self.stops, *self.checks))


class StructSchema:
    """A Go struct: its name, its fields in Go's order, and the checks of the struct as a whole.

    An `open` shape lists only some fields; the others pass through unchanged, in their order. `within` makes
    the last field, of a struct that contains its own type. `description` is for the schema.
    """

    def __init__(
        self,
        go: str,
        fields: Sequence[Field],
        *,
        checks: Sequence[FieldCheck] = (),
        opened: bool = False,
        within: "Callable[[StructSchema], Field] | None" = None,
        description: str = "",
    ) -> None:
        self.go = go
        self.checks = tuple(check.run for check in checks)
        self.description = description
        self.facts = _facts(checks)
        self.opened = opened
        self.fields = tuple(fields) if within is None else (*fields, within(self))
        self.by_name: Mapping[str, Field] = {field.name: field for field in self.fields}
        self.checked = tuple(
            field for field in self.fields if field.stops or field.checks or _has_checks(field.shape)
        )
        self.gated = tuple(field for field in self.fields if field.gate)
        self.defaulted = tuple((field, field.default) for field in self.fields if field.default is not None)


Reader = Callable[[Field, Any, list[str]], Any]


def _has_checks(shape: StructSchema | None) -> bool:
    return shape is not None and bool(shape.checks or shape.checked)


def drop_gated(shape: StructSchema, new: Document, old: Document | None, gates: frozenset[str]) -> list[str]:
    """Drop the fields whose gate is off, unless the stored object has them; return their names."""
    dropped = []
    for field in shape.gated:
        name = field.name
        if field.gate in gates or new.get(name) is None or (old is not None and old.get(name) is not None):
            continue
        dropped.append(name)
        if field.always:
            new[name] = None
        else:
            del new[name]
    return dropped


def validate(
    shape: StructSchema, path: str, new: Document, old: Document | None, write: WriteContext
) -> list[FieldError]:
    """Return errors of a struct by its table; `old` is None if there is no stored counterpart."""
    return [error._replace(declared=True) for error in _validate(shape, path, new, old, write)]


def _validate(
    shape: StructSchema, path: str, new: Document, old: Document | None, write: WriteContext
) -> list[FieldError]:
    errors: list[FieldError] = []
    for check in shape.checks:
        errors += check(path, new, old, write) or ()
    for field in shape.checked:
        name = field.name
        value = new.get(name)
        if value is None and field.optional and not write.update:
            # Most fields of a new object are absent and have no check that would apply.
            continue
        stored = None if old is None else old.get(name)
        if not (write.update and old is not None and value == stored):
            errors += _validate_field(field, f"{path}.{name}", value, stored, write)
    return errors


def _validate_field(
    field: Field, path: str, value: Any, stored: Any, write: WriteContext
) -> list[FieldError]:
    errors: list[FieldError] = []
    stopped = False
    for stop in field.stops:
        failures = stop.run(path, value, stored, write)
        if failures is not None:
            errors += failures
            stopped = True
    if stopped:
        return errors
    for check in field.checks:
        errors += check.run(path, value, stored, write) or ()
    shape = field.shape
    if shape is None or value is None:
        return errors
    if not field.many:
        return errors + _validate(shape, path, value, stored, write)
    counterparts = by_key(stored, field.key) if field.key else {}
    for index, item in enumerate(value):
        counterpart = counterparts.get(item.get(field.key))
        if write.update and counterpart is not None and counterpart == item:
            continue
        errors += _validate(shape, f"{path}[{index}]", item, counterpart, write)
    return errors


def by_key(items: Sequence[Document] | None, key: str) -> Mapping[Any, Document]:
    """Return the items of a list-map by their key, the first of several with one key."""
    return {item.get(key): item for item in reversed(items or ())}
