"""What the API server knows of a kind, as data: each field's Go type, gate and checks, in the server's order.

One table per served version drives three things that must agree: decoding (`podium.rules.decoding`), what a
strategy drops because its gate is off, and validation with the server's ratcheting (a field that equals the
stored one is not looked at again) and short-circuits. Documents here are in canonical form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from podium.rules.fields import FieldError

Document = dict[str, Any]


class Write(NamedTuple):
    """What a check may ask besides the values: whether this is an update, and which gates are on."""

    update: bool
    gates: frozenset[str]


# A check of one field or struct: (path, new, old, write) to errors; None goes on. In `stops` an empty
# list ends the field silently.
Check = Callable[[str, Any, Any, Write], Sequence[FieldError] | None]


def optional(_path: str, new: Any, _old: Any, _write: Write) -> Sequence[FieldError] | None:
    """Stop at an absent value, which has nothing more to check."""
    return [] if new is None else None


class Field:
    """One field: how Go reads it, what becomes of its zero value, which gate guards it, what checks it.

    `pointer` keeps a zero value that was written; `always` writes the field even when it is zero or nil.
    `stops` are all evaluated, and any of them ends the field; `checks` and the shape's own follow.
    """

    def __init__(
        self,
        name: str,
        read: "Reader",
        go: str,
        *,
        pointer: bool = False,
        always: bool = False,
        zero: Any = None,
        shape: "Shape | None" = None,
        many: bool = False,
        key: str = "",
        gate: str = "",
        stops: Sequence[Check] = (),
        checks: Sequence[Check] = (),
    ) -> None:
        self.name = name
        self.read = read
        self.go = go
        self.pointer = pointer
        self.always = always
        self.zero = zero
        self.shape = shape
        self.many = many
        self.key = key
        self.gate = gate
        self.stops = tuple(stops)
        self.checks = tuple(checks)
        self.optional = optional in stops


class Shape:
    """One Go struct: its name, its fields in Go's order, and the checks of the struct as a whole.

    An `open` shape names some fields of many: the rest passes through untouched, in the order it came.
    """

    def __init__(
        self, go: str, fields: Sequence[Field], *, checks: Sequence[Check] = (), opened: bool = False
    ) -> None:
        self.go = go
        self.fields = tuple(fields)
        self.checks = tuple(checks)
        self.opened = opened
        self.by_name: Mapping[str, Field] = {field.name: field for field in fields}
        self.checked = tuple(
            field for field in fields if field.stops or field.checks or _has_checks(field.shape)
        )
        self.gated = tuple(field for field in fields if field.gate)


Reader = Callable[[Field, Any, list[str]], Any]


def _has_checks(shape: Shape | None) -> bool:
    return shape is not None and bool(shape.checks or shape.checked)


def drop_gated(shape: Shape, new: Document, old: Document | None, gates: frozenset[str]) -> list[str]:
    """Drop the fields whose gate is off, unless the stored object has them already; give their names."""
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


def validate(shape: Shape, path: str, new: Document, old: Document | None, write: Write) -> list[FieldError]:
    """Check a struct against its table; `old` is None where there is no stored counterpart."""
    errors: list[FieldError] = []
    for check in shape.checks:
        errors += check(path, new, old, write) or ()
    for field in shape.checked:
        name = field.name
        value = new.get(name)
        if value is None and field.optional and not write.update:
            # Most fields of a new object are this, and no check would say anything.
            continue
        stored = None if old is None else old.get(name)
        if not (write.update and old is not None and value == stored):
            errors += _validate_field(field, f"{path}.{name}", value, stored, write)
    return errors


def _validate_field(field: Field, path: str, value: Any, stored: Any, write: Write) -> list[FieldError]:
    errors: list[FieldError] = []
    stopped = False
    for stop in field.stops:
        found = stop(path, value, stored, write)
        if found is not None:
            errors += found
            stopped = True
    if stopped:
        return errors
    for check in field.checks:
        errors += check(path, value, stored, write) or ()
    shape = field.shape
    if shape is None or value is None:
        return errors
    if not field.many:
        return errors + validate(shape, path, value, stored, write)
    counterparts = by_key(stored, field.key) if field.key else {}
    for index, item in enumerate(value):
        counterpart = counterparts.get(item.get(field.key))
        if write.update and counterpart is not None and counterpart == item:
            continue
        errors += validate(shape, f"{path}[{index}]", item, counterpart, write)
    return errors


def by_key(items: Sequence[Document] | None, key: str) -> Mapping[Any, Document]:
    """Give the items of a list-map by their key, the first where several have one."""
    return {item.get(key): item for item in reversed(items or ())}
