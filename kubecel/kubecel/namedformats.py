"""Named formats: `format.dns1123Label().validate("name")`.

Source: k8s.io/apiserver/pkg/cel/library/format.go, k8s.io/apimachinery/pkg/util/validation.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

from kubecel.declarations import FORMATS
from kubecel.effort import READ, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.times import parse_timestamp
from kubecel.urls import UrlError, parse_url
from kubecel.values import NOTHING, Opaque, Optional

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"(({_QUALIFIED}))?"
_LABEL_ERROR = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and"
    " end with an alphanumeric character"
)
_SUBDOMAIN_ERROR = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
    " start and end with an alphanumeric character"
)
_OLD_LABEL_ERROR = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character"
)
_QUALIFIED_ERROR = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character"
)
_VALUE_ERROR = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
    " start and end with an alphanumeric character"
)
# The effort of any validation.
_BASE = 10
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class NamedFormat(Opaque):
    """A format; the size of its pattern counts in its cost."""

    name: str
    pattern_size: int
    type_name = "kubernetes.NamedFormat"

    def same(self, other: object) -> bool:
        """Return whether two formats have one name."""
        return isinstance(other, NamedFormat) and self.name == other.name


def _shown(message: str, pattern: str, *examples: str) -> str:
    listed = "".join(f"{' or ' if place else ''}'{example}', " for place, example in enumerate(examples))
    return f"{message} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(text: str, limit: int, unit: str = "bytes") -> list[str]:
    size = len(text.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {limit} {unit}"] if size > limit else []


def _label(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not re.fullmatch(_LABEL, text):
        if _is_subdomain(text):
            return [*errors, "must not contain dots"]
        errors.append(_shown(_LABEL_ERROR, _LABEL, "my-name", "123-abc"))
    return errors


def _is_subdomain(text: str) -> bool:
    # The whole pattern would keep a place to come back to for every label.
    return all(re.fullmatch(_LABEL, part) for part in text.split("."))


def _subdomain(text: str) -> list[str]:
    errors = _too_long(text, 253)
    if not _is_subdomain(text):
        errors.append(_shown(_SUBDOMAIN_ERROR, _SUBDOMAIN, "example.com"))
    return errors


def _old_label(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not re.fullmatch(_OLD_LABEL, text):
        errors.append(_shown(_OLD_LABEL_ERROR, _OLD_LABEL, "my-name", "abc-123"))
    return errors


def _qualified(text: str) -> list[str]:
    error = _shown(_QUALIFIED_ERROR, _QUALIFIED, "MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > 2:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {error} {optional}"]
    errors: list[str] = []
    if len(parts) == 2:
        errors += (
            ["prefix part must be non-empty"]
            if not parts[0]
            else [f"prefix part {fault}" for fault in _subdomain(parts[0])]
        )
    name = parts[-1]
    errors += (
        ["name part must be non-empty"]
        if not name
        else [f"name part {fault}" for fault in _too_long(name, 63)]
    )
    return errors if re.fullmatch(_QUALIFIED, name) else [*errors, f"name part {error}"]


def _label_value(text: str) -> list[str]:
    errors = _too_long(text, 63)
    if not re.fullmatch(_VALUE, text):
        errors.append(_shown(_VALUE_ERROR, f"({_QUALIFIED})?", "MyValue", "my_value", "12345"))
    return errors


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    date = _DATE.fullmatch(text) and _instant(f"{text}T00:00:00Z")
    return [] if date else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return [] if _instant(text) else ["invalid datetime"]


def _instant(text: str) -> bool:
    try:
        return parse_timestamp(text) is not None
    except SelectorRuntimeError:
        return False


_CHECKS: dict[str, tuple[str, int, Callable[[str], list[str]]]] = {
    "dns1123Label": ("DNS1123Label", 30, _label),
    "dns1123Subdomain": ("DNS1123Subdomain", 60, _subdomain),
    "dns1035Label": ("DNS1035Label", 30, _old_label),
    "qualifiedName": ("QualifiedName", 60, _qualified),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", 30, _prefix(_label)),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", 60, _prefix(_subdomain)),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", 30, _prefix(_old_label)),
    "labelValue": ("LabelValue", 40, _label_value),
    "uri": ("URI", 1103, _uri),
    "uuid": ("uuid", 70, _uuid),
    "byte": ("byte", 84, _byte),
    "date": ("date", 71, _date),
    "datetime": ("datetime", 71, _datetime),
}
_BY_SHOWN = {shown: check for shown, _, check in _CHECKS.values()}
assert set(_CHECKS) == set(FORMATS)
NAMED = {name: NamedFormat(shown, size) for name, (shown, size, _) in _CHECKS.items()}


def format_of_name(name: str) -> Optional:
    """Return the format of a name, if there is one."""
    named_format = NAMED.get(name)
    return Optional(named_format) if named_format is not None else NOTHING


def validate(named_format: NamedFormat, text: str) -> Optional:
    """Return the errors of a text, if there are any."""
    meter.spend(_BASE + 2 * len(text) // READ)
    errors = _BY_SHOWN[named_format.name](text)
    return Optional(list[object](errors)) if errors else NOTHING
