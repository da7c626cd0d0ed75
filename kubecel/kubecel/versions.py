"""Semantic versions as values of CEL.

Source: github.com/blang/semver/v4, k8s.io/apiserver/pkg/cel/library/semverlib.go.
"""

import string
from dataclasses import dataclass

from kubecel.effort import COPIED, SEARCHED, meter
from kubecel.errors import SelectorRuntimeError
from kubecel.goquote import go_quote
from kubecel.values import UINT_LIMIT, Opaque

_DIGITS = frozenset(string.digits)
_LETTERS = frozenset(string.ascii_letters + string.digits + "-")


class VersionError(Exception):
    """A text that is no version; the text is semver's."""


@dataclass(frozen=True, slots=True)
class VersionValue(Opaque):
    """A version; the build is not compared."""

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    type_name = "kubernetes.Semver"

    def __str__(self) -> str:
        prerelease = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return ".".join(map(str, self.numbers)) + prerelease + build

    def same(self, other: object) -> bool:
        """Return whether neither is newer."""
        return isinstance(other, VersionValue) and compare(self, other) == 0

    def signed(self, place: int) -> int:
        """Return one of the numbers as upstream does, with its 64 bits read as a signed number."""
        number = self.numbers[place]
        return number if number < UINT_LIMIT // 2 else number - UINT_LIMIT


def parse(text: str) -> VersionValue:
    """Return the version of a text. Raises VersionError."""
    if not text:
        raise VersionError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise VersionError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    patch, plus, build = parts[2].partition("+")
    patch, minus, prerelease = patch.partition("-")
    numbers = (major, minor, _number(patch, "Patch"))
    names = tuple(prerelease.split(".")) if minus else ()
    for name in names:
        _check_prerelease(name)
    builds = tuple(build.split(".")) if plus else ()
    for name in builds:
        if not name:
            raise VersionError("Build meta data is empty")
        if not _LETTERS.issuperset(name):
            raise VersionError(f"Invalid character(s) found in build meta data {go_quote(name)}")
    return VersionValue(numbers, names, builds)


def _number(text: str, place: str) -> int:
    if not _DIGITS.issuperset(text):
        raise VersionError(f"Invalid character(s) found in {place.lower()} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise VersionError(f"{place} number must not contain leading zeroes {go_quote(text)}")
    if not text:
        raise VersionError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) >= UINT_LIMIT:
        raise VersionError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _check_prerelease(name: str) -> None:
    if not name:
        raise VersionError("Prerelease is empty")
    if _DIGITS.issuperset(name):
        if len(name) > 1 and name[0] == "0":
            raise VersionError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(name)}")
        if len(name) > 20 or int(name) >= UINT_LIMIT:
            raise VersionError(f"strconv.ParseUint: parsing {go_quote(name)}: value out of range")
    elif not _LETTERS.issuperset(name):
        raise VersionError(f"Invalid character(s) found in prerelease {go_quote(name)}")


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part.encode("utf-8", "surrogatepass")) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in _DIGITS and stripped else "0" + stripped
    if len(parts) < 3:
        if set(parts[-1]) & set("+-"):
            raise VersionError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def version(text: str, normalize: bool = False) -> VersionValue:
    """Return the version of a text. Raises SelectorRuntimeError."""
    try:
        return parse(_normalized(text) if normalize else text)
    except VersionError as error:
        raise SelectorRuntimeError(str(error)) from None


def compare(first: VersionValue, second: VersionValue) -> int:
    """Return -1, 0 or 1."""
    if first.numbers != second.numbers:
        return 1 if first.numbers > second.numbers else -1
    if not first.prerelease or not second.prerelease:
        return bool(second.prerelease) - bool(first.prerelease)
    for a, b in zip(first.prerelease, second.prerelease, strict=False):
        meter.spend(1 + len(a) // COPIED)
        if a != b:
            return _compare_names(a, b)
    return (len(first.prerelease) > len(second.prerelease)) - (len(first.prerelease) < len(second.prerelease))


def _compare_names(first: str, second: str) -> int:
    meter.spend((len(first) + len(second)) // SEARCHED)
    numeric = _DIGITS.issuperset(first), _DIGITS.issuperset(second)
    if all(numeric):
        return (int(first) > int(second)) - (int(first) < int(second))
    if any(numeric):
        return -1 if numeric[0] else 1
    return 1 if first > second else -1
