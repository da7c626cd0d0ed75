"""Field errors with apimachinery's wording, and the refusals that carry them to the caller.

The texts are an interface: people search for them, and tests of other tools match them. Values are therefore
rendered as in Go (`%q`, encoding/json), and several errors are joined as in the API server.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from kubecel.goquote import go_quote
from podium.api.findings import Finding, ObjectRef, Severity
from podium.rules.rule import Rule


class RuleRemedy(NamedTuple):
    """A rule together with the user's remedy for a breach; every check has one."""

    rule: Rule
    fix: str


def refusal(rule_id: str, *, title: str, why: str, source: str, fix: str) -> RuleRemedy:
    """Return the cause of a refusal: a rule of severity error and its remedy."""
    rule = Rule(id=rule_id, severity=Severity.ERROR, title=title, why=why, source=source)
    return RuleRemedy(rule, fix)


class FieldError(NamedTuple):
    """An error on a field; `body` is the text after `field: `.

    The server lists the errors of declarative rules (`declared`) after those of its code.
    """

    cause: RuleRemedy
    field: str
    body: str
    declared: bool = False

    def __str__(self) -> str:
        """Return the error as in a Status message."""
        return f"{self.field}: {self.body}"

    def finding(self, ref: ObjectRef) -> Finding:
        """Return the error as a finding on an object."""
        return self.cause.rule.finding(ref, self.field, self.body, self.cause.fix)


class RefusedRequest(Exception):  # noqa: N818 - a verdict on the object, not a failure of the tool
    """A request that the server would refuse: HTTP code, Status reason and message, and the findings."""

    def __init__(self, code: int, reason: str, message: str, findings: list[Finding]) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.findings = findings


def required(cause: RuleRemedy, field: str, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError(cause, field, _detailed("Required value", detail))


def invalid(cause: RuleRemedy, field: str, value: Any, detail: str) -> FieldError:
    """Return the error for a malformed value; `value` is the value that Go would render, None for nil."""
    return FieldError(cause, field, f"Invalid value: {go_value(value)}: {detail}")


def invalid_field(cause: RuleRemedy, field: str, detail: str) -> FieldError:
    """Return the error for a field whose value Go does not render."""
    return FieldError(cause, field, f"Invalid value: {detail}")


def unsupported(cause: RuleRemedy, field: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error for a value outside an enumeration (a Go type of its own, so rendered as JSON)."""
    choices = ", ".join(go_quote(choice) for choice in supported)
    return FieldError(cause, field, f"Unsupported value: {go_json(value)}: supported values: {choices}")


def forbidden(cause: RuleRemedy, field: str, detail: str = "") -> FieldError:
    """Return the error for a value that is not allowed here; the HTTP code is 422 as for any field error."""
    return FieldError(cause, field, _detailed("Forbidden", detail))


def duplicate(cause: RuleRemedy, field: str, value: Any) -> FieldError:
    """Return the error for a duplicate value."""
    return FieldError(cause, field, f"Duplicate value: {go_value(value)}")


def too_long(cause: RuleRemedy, field: str, limit: int) -> FieldError:
    """Return the error for a text with more bytes than `limit`."""
    return FieldError(cause, field, f"Too long: may not be more than {limit} bytes")


def too_many(cause: RuleRemedy, field: str, count: int, limit: int) -> FieldError:
    """Return the error for a list with more items than `limit`."""
    items = "item" if limit == 1 else "items"
    return FieldError(cause, field, f"Too many: {count}: must have at most {limit} {items}")


def go_value(value: Any) -> str:
    """Return a value rendered as in field.Error: texts quoted, numbers bare, anything else as JSON."""
    if isinstance(value, str):
        return go_quote(value)
    return go_json(value)


def go_json(value: Any) -> str:
    """Return JSON as from Go's encoding/json: compact, with <, >, &, U+2028 and U+2029 escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_JSON_ESCAPES)


def _detailed(body: str, detail: str) -> str:
    return f"{body}: {detail}" if detail else body


_JSON_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
