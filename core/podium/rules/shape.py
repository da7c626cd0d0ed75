"""What the API server knows of a kind, as data: each field's Go type, gate and checks, in the server's order.

One table per served version drives three things that must agree: decoding (a wrong type is 400, an unknown
field is pruned with a warning), the form an object is stored in, and validation with the server's ratcheting
(a field that equals the stored one is not looked at again) and short-circuits.

A decoded document is a fresh dict in canonical form: keys in Go's order, zero values omitted where Go's JSON
omits them, `null` or an empty value kept where it does not, an empty list or map absent.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from podium.rules.fields import FieldError, go_quote

Document = dict[str, Any]


class Write(NamedTuple):
    """What a check may ask besides the values: whether this is an update, and which gates are on."""

    update: bool
    gates: frozenset[str]


# A check of one field or struct: (path, new, old, write) to errors; None goes on. In `stops` an empty
# list ends the field silently: an optional value that is absent has nothing more to check.
Check = Callable[[str, Any, Any, Write], Sequence[FieldError] | None]


class WrongTypeError(Exception):
    """A value that Go could not decode: the text after `cannot be handled as a KIND: `, and its path."""

    def __init__(self, found: str, wanted: str, message: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted
        self.message = message
        self.struct = ""
        self.path = ""

    def within(self, struct: str, name: str) -> "WrongTypeError":
        """Add the field that the value stood in; the innermost struct names the error, as in Go."""
        self.struct = self.struct or struct
        separator = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{name}{separator}{self.path}"
        return self

    def __str__(self) -> str:
        """Give encoding/json's text; its path has no indices."""
        where = re.sub(r"\[\d+\]", "", self.path)
        into = f"Go struct field {self.struct}.{where} of type" if where else "Go value of type"
        return self.message or f"json: cannot unmarshal {self.found} into {into} {self.wanted}"


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


# Decoding.


def decode(shape: Shape, raw: Mapping[str, Any], unknown: list[str]) -> Document:
    """Bring a document to canonical form; paths of fields that Go does not know are added to `unknown`.

    Raises WrongTypeError for the first value, in the document's order, that Go could not decode.
    """
    seen: Document = {}
    for name, value in raw.items():
        field = shape.by_name.get(name)
        if field is None:
            if shape.opened:
                seen[name] = value
            else:
                unknown.append(name)
        elif value is not None:
            before = len(unknown)
            try:
                seen[name] = field.read(field, value, unknown)
            except WrongTypeError as error:
                raise error.within(shape.go, name) from None
            if len(unknown) > before:
                _prefix(unknown, before, name)
    return _open_form(shape, seen) if shape.opened else _canonical(shape, seen)


def _canonical(shape: Shape, seen: Document) -> Document:
    document: Document = {}
    for field in shape.fields:
        name = field.name
        value = seen.get(name)
        if value or (value is not None and field.pointer):
            document[name] = value
        elif field.always:
            document[name] = zero(field)
    return document


def _open_form(shape: Shape, seen: Document) -> Document:
    for field in shape.fields:
        value = seen.get(field.name)
        if not value and not (value is not None and field.pointer):
            if field.always:
                seen[field.name] = zero(field)
            else:
                seen.pop(field.name, None)
    return seen


def zero(field: Field) -> Any:
    """Give what Go writes for an absent value: of a struct its own zero form, else the field's `zero`."""
    return decode(field.shape, {}, []) if field.shape is not None and field.zero is not None else field.zero


def _prefix(unknown: list[str], start: int, name: str) -> None:
    for index in range(start, len(unknown)):
        rest = unknown[index]
        unknown[index] = f"{name}{rest}" if rest.startswith("[") else f"{name}.{rest}"


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return "number"


def _read_text(field: Field, value: Any, _unknown: list[str]) -> str:
    if type(value) is not str:
        raise WrongTypeError(_json_type(value), field.go)
    return value


def _read_bool(field: Field, value: Any, _unknown: list[str]) -> bool:
    if type(value) is not bool:
        raise WrongTypeError(_json_type(value), field.go)
    return value


_LIMITS = {"int32": 2**31, "int64": 2**63}


def _read_integer(field: Field, value: Any, _unknown: list[str]) -> int:
    limit = _LIMITS[field.go]
    if type(value) is int and -limit <= value < limit:
        return value
    kind = _json_type(value)
    raise WrongTypeError(f"number {value}" if kind == "number" else kind, field.go)


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)").fullmatch
_ZERO_TIME = "0001-01-01T00:00:00Z"


def _read_time(_field: Field, value: Any, _unknown: list[str]) -> str | None:
    """Read metav1.Time, which is written in UTC and whole seconds; the zero time is as good as none."""
    if type(value) is not str:
        raise WrongTypeError(_json_type(value), "string")
    try:
        parsed = datetime.fromisoformat(value.replace(",", ".")) if _RFC3339(value) else None
        utc = parsed.astimezone(UTC).replace(tzinfo=None) if parsed is not None else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        message = f'parsing time {go_quote(value)} as "2006-01-02T15:04:05Z07:00"'
        raise WrongTypeError("string", "string", message)
    text = utc.isoformat(timespec="seconds") + "Z"
    return None if text == _ZERO_TIME else text


def _read_object(field: Field, value: Any, unknown: list[str]) -> Document:
    if type(value) is not dict:
        raise WrongTypeError(_json_type(value), field.go)
    assert field.shape is not None
    return decode(field.shape, value, unknown)


def _read_objects(field: Field, value: Any, unknown: list[str]) -> list[Document]:
    if type(value) is not list:
        raise WrongTypeError(_json_type(value), f"[]{field.go}")
    items = []
    for index, item in enumerate(value):
        before = len(unknown)
        try:
            items.append(_read_object(field, {} if item is None else item, unknown))
        except WrongTypeError as error:
            raise error.within("", f"[{index}]") if error.path else error from None
        if len(unknown) > before:
            _prefix(unknown, before, f"[{index}]")
    return items


def _read_texts(field: Field, value: Any, _unknown: list[str]) -> list[str]:
    if type(value) is not list:
        raise WrongTypeError(_json_type(value), field.go)
    for item in value:
        if item is not None and type(item) is not str:
            raise WrongTypeError(_json_type(item), "string")
    return [item or "" for item in value]


def _read_map(field: Field, value: Any, _unknown: list[str]) -> dict[str, str]:
    if type(value) is not dict:
        raise WrongTypeError(_json_type(value), field.go)
    for item in value.values():
        if item is not None and type(item) is not str:
            raise WrongTypeError(_json_type(item), "string")
    return {key: item or "" for key, item in value.items()}


def _read_anything(_field: Field, value: Any, _unknown: list[str]) -> Any:
    return value


# Fields by Go type.


def text(name: str, go: str = "string", **options: Any) -> Field:
    """Make a string field; `go` names a string type of its own."""
    return Field(name, _read_text, go, zero="", **options)


def integer(name: str, go: str = "int32", **options: Any) -> Field:
    """Make an integer field: `int32` or `int64`."""
    return Field(name, _read_integer, go, zero=0, **options)


def boolean(name: str, **options: Any) -> Field:
    """Make a bool field."""
    return Field(name, _read_bool, "bool", zero=False, **options)


def time(name: str, **options: Any) -> Field:
    """Make a metav1.Time field."""
    return Field(name, _read_time, "v1.Time", **options)


def struct(name: str, shape: Shape, go: str, **options: Any) -> Field:
    """Make a field that is a struct by value: always there, as `{}` when nothing was written."""
    return Field(name, _read_object, go, shape=shape, zero={}, always=True, **options)


def pointer(name: str, shape: Shape, go: str, **options: Any) -> Field:
    """Make a field that is a pointer to a struct: `{}` and absent are two things."""
    return Field(name, _read_object, go, shape=shape, pointer=True, **options)


def objects(name: str, shape: Shape, go: str, *, key: str = "", **options: Any) -> Field:
    """Make a list of structs; with a `key` its items are matched with the stored ones by that field."""
    return Field(name, _read_objects, go, shape=shape, many=True, key=key, **options)


def texts(name: str, **options: Any) -> Field:
    """Make a list of strings."""
    return Field(name, _read_texts, "[]string", **options)


def mapping(name: str, **options: Any) -> Field:
    """Make a map of strings."""
    return Field(name, _read_map, "map[string]string", **options)


def anything(name: str, **options: Any) -> Field:
    """Make a field that no rule looks into."""
    return Field(name, _read_anything, "", **options)


# Strategy and validation.


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
    for index, item in enumerate(value):
        counterpart = lookup(stored, field.key, item.get(field.key)) if field.key else None
        if write.update and counterpart is not None and counterpart == item:
            continue
        errors += validate(shape, f"{path}[{index}]", item, counterpart, write)
    return errors


def lookup(items: Sequence[Document] | None, key: str, value: Any) -> Document | None:
    """Find the first item of a list-map whose key has this value."""
    for item in items or ():
        if item.get(key) == value:
            return item
    return None
