"""The checks of the tables: one function for each of apimachinery's declarative validators.

The function of a check takes (path, new, old, write) and returns errors, or None to continue. If one in a
field's `stops` returns an empty list, the field ends without an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

from podium.rules import fields
from podium.rules.fields import FieldError, RuleRemedy
from podium.rules.schema import Fact, FieldCheck, WriteContext, by_key

Errors = Sequence[FieldError] | None


def required(cause: RuleRemedy) -> FieldCheck:
    """Return a check that refuses an absent value, and zero: in Go a `minCount: 0` is a missing value."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        return None if new else [fields.required(cause, path)]

    return FieldCheck(check, Fact.REQUIRED)


def required_pointer(cause: RuleRemedy) -> FieldCheck:
    """Return a check that refuses only an absent value; `{}` is present."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        return [fields.required(cause, path)] if new is None else None

    return FieldCheck(check, Fact.REQUIRED)


def immutable(cause: RuleRemedy) -> FieldCheck:
    """Return a check that refuses any change on update, also from or to unset.

    Equal values do not reach this check.
    """

    def check(path: str, _new: Any, _old: Any, write: WriteContext) -> Errors:
        return [fields.invalid(cause, path, None, "field is immutable")] if write.update else None

    return FieldCheck(check, Fact.IMMUTABLE)


def no_set_no_unset(cause: RuleRemedy) -> FieldCheck:
    """Return a check that refuses, on update, to set or unset a value; changes inside it are allowed."""

    def check(path: str, new: Any, old: Any, write: WriteContext) -> Errors:
        if not write.update or (new is None) == (old is None):
            return None
        message = "field cannot be set once created" if old is None else "field cannot be cleared once set"
        return [fields.invalid(cause, path, None, message)]

    return FieldCheck(check, Fact.SET_ONCE)


def no_add_no_remove(cause: RuleRemedy, key: str) -> FieldCheck:
    """Return a check that refuses, on update, to add or remove items of a list-map."""

    def check(path: str, new: Any, old: Any, write: WriteContext) -> Errors:
        if not write.update:
            return None
        here, there = by_key(new, key), by_key(old, key)
        errors = [
            fields.forbidden(cause, f"{path}[{index}]", "item may not be added")
            for index, item in enumerate(new or ())
            if item.get(key) not in there
        ]
        errors += [
            fields.forbidden(cause, path, "item may not be removed")
            for item in old or ()
            if item.get(key) not in here
        ]
        return errors or None

    return FieldCheck(check, Fact.SAME_ITEMS, key)


def gated(gate: str, cause: RuleRemedy) -> FieldCheck:
    """Return a check that refuses a changed value while its gate is off.

    The strategy has dropped the value already unless it was stored.
    """

    def check(path: str, new: Any, _old: Any, write: WriteContext) -> Errors:
        if gate in write.gates:
            return None
        return [] if new is None else [fields.forbidden(cause, path)]

    return FieldCheck(check)


def when_on(gate: str, inner: FieldCheck) -> FieldCheck:
    """Return a check that applies only while a gate is on."""

    def check(path: str, new: Any, old: Any, write: WriteContext) -> Errors:
        return inner.run(path, new, old, write) if gate in write.gates else None

    return FieldCheck(check, inner.fact, inner.value)


def union(cause: RuleRemedy, *members: str) -> FieldCheck:
    """Return a check that requires exactly one member; on update only if membership changed."""
    listed = ", ".join(f"`{member}`" for member in members)

    def check(path: str, new: Any, old: Any, write: WriteContext) -> Errors:
        given = [member for member in members if new.get(member) is not None]
        if (
            write.update
            and old is not None
            and given == [member for member in members if old.get(member) is not None]
        ):
            return None
        if not given:
            return [fields.invalid(cause, path, "", f"must specify one of: {listed}")]
        if len(given) > 1:
            shown = f"{{{', '.join(given)}}}"
            return [fields.invalid(cause, path, shown, f"must specify exactly one of: {listed}")]
        return None

    return FieldCheck(check, Fact.MEMBERS, members)


def dependent(cause: RuleRemedy, name: str, needed: str) -> FieldCheck:
    """Return a check that requires `needed` beside `name`; on update only if one of them was set or unset."""

    def check(path: str, new: Any, old: Any, write: WriteContext) -> Errors:
        if new.get(name) is None or new.get(needed) is not None:
            return None
        if write.update and old.get(name) is not None and old.get(needed) is None:
            return None
        return [fields.required(cause, f"{path}.{needed}", f"must be set when {name} is set")]

    return FieldCheck(check)


def enumeration(cause: RuleRemedy, *values: str) -> FieldCheck:
    """Return a check that requires one of the values; the message lists them in byte order."""
    supported = sorted(values)

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        return None if new in supported else [fields.unsupported(cause, path, new, supported)]

    return FieldCheck(check, Fact.VALUES, supported)


def at_least_one(cause: RuleRemedy) -> FieldCheck:
    """Return a check that requires at least one."""
    return FieldCheck(minimum(cause, 1).run, Fact.AT_LEAST_ONE)


def minimum(cause: RuleRemedy, limit: int) -> FieldCheck:
    """Return a check that requires at least `limit`."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        if new >= limit:
            return None
        return [fields.invalid(cause, path, new, f"must be greater than or equal to {limit}")]

    return FieldCheck(check)


def maximum(cause: RuleRemedy, limit: int) -> FieldCheck:
    """Return a check that requires at most `limit`."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        if new <= limit:
            return None
        return [fields.invalid(cause, path, new, f"must be less than or equal to {limit}")]

    return FieldCheck(check, Fact.MAXIMUM, limit)


def max_items(cause: RuleRemedy, limit: int) -> FieldCheck:
    """Return a check that requires at most `limit` items."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        length = len(new or ())
        return [fields.too_many(cause, path, length, limit)] if length > limit else None

    return FieldCheck(check, Fact.MAX_ITEMS, limit)


def unique(cause: RuleRemedy, key: str) -> FieldCheck:
    """Return a check that requires unique keys in a list-map; the error shows the whole later item."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        seen = set()
        errors = []
        for index, item in enumerate(new):
            if item.get(key) in seen:
                errors.append(fields.duplicate(cause, f"{path}[{index}]", item))
            seen.add(item.get(key))
        return errors

    return FieldCheck(check)


def spelled(cause: RuleRemedy, complain: Callable[[str], list[str]]) -> FieldCheck:
    """Return a check that requires a text without complaints from a function of podium.rules.names."""

    def check(path: str, new: Any, _old: Any, _write: WriteContext) -> Errors:
        return [fields.invalid(cause, path, new, complaint) for complaint in complain(new)]

    return FieldCheck(check, Fact.SYNTAX, complain)
