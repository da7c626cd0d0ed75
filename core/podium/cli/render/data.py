"""JSON and YAML of every report: one envelope, one order of keys, and a YAML writer for large reports.

PyYAML's C writer takes 0.9 s for 10,000 findings. Reports contain only JSON values, so this writer of block
style takes a third of that time; a property test reads its output with PyYAML.
"""

import functools
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from podium.report import API_VERSION, AuditReport

# Text that every YAML reader, 1.1 or 1.2, reads as text without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
# A longer key needs a line of its own after a question mark.
_LONGEST_KEY = 1000
# Characters that msgspec writes unchanged but YAML would fold, drop or refuse inside quotes.
_UNPRINTABLE = re.compile("[^\x20-\x7e\u00a1-\u1fff\u2100-\ud7ff\uf900-\ufdff]")


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the audit's JSON contract as one document."""
    return document(
        "AuditReport",
        summary=msgspec.to_builtins(report.summary),
        findings=[finding.as_json() for finding in report.findings],
        groups=msgspec.to_builtins(report.groups),
        known=[finding.as_json() for finding in report.known],
        ignored=[finding.as_json() for finding in report.ignored],
        gone=[finding.as_json() for finding in report.gone],
    )


def document(kind: str, **body: Any) -> dict[str, Any]:
    """Return a report's parts in the envelope that every command's JSON and YAML have."""
    return {"apiVersion": API_VERSION, "kind": kind, **body}


def as_json(value: dict[str, Any]) -> str:
    """Return a document as JSON, indented by two, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def as_yaml(value: dict[str, Any]) -> str:
    """Return a document as YAML in block style; reading it gives the same value."""
    lines: list[str] = []
    _mapping(value, "", lines)
    return "\n".join(lines) + "\n"


def as_manifests(documents: Iterable[dict[str, Any]]) -> str:
    """Return several documents as one stream of YAML."""
    return "---\n".join(map(as_yaml, documents))


def _mapping(value: dict[str, Any], indent: str, lines: list[str]) -> None:
    for key, inner in value.items():
        name = _text(key)
        if len(name) <= _LONGEST_KEY:
            _entry(f"{indent}{name}:", inner, indent, lines)
        else:
            lines.append(f"{indent}? {name}")
            _entry(f"{indent}:", inner, indent + "  ", lines)


def _entry(start: str, value: Any, indent: str, lines: list[str]) -> None:
    """Write the value after a key or a dash: a scalar on the same line, a collection below."""
    if isinstance(value, dict) and value:
        lines.append(start)
        _mapping(value, indent + "  ", lines)
    elif isinstance(value, list) and value:
        lines.append(start)
        _sequence(value, indent, lines)
    else:
        lines.append(f"{start} {_scalar(value)}")


def _sequence(value: list[Any], indent: str, lines: list[str]) -> None:
    for item in value:
        if isinstance(item, dict) and item:
            # The first key is beside the dash: write the mapping indented by one step, then insert the dash.
            at = len(lines)
            _mapping(item, indent + "  ", lines)
            lines[at] = f"{indent}- {lines[at][len(indent) + 2 :]}"
        else:
            _entry(f"{indent}-", item, indent + "  ", lines)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if type(value) is int:
        return str(value)
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        # In YAML 1.1 1e16 is text: a number needs the point and the sign.
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
    return msgspec.json.encode(value).decode()


@functools.lru_cache(maxsize=4096)  # Keys, rules, kinds and fixes repeat often.
def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return _UNPRINTABLE.sub(_escape, msgspec.json.encode(value).decode())


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
