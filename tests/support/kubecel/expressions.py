"""Generated expressions and devices: most are well typed, some are not, some fail at run time.

An expression is built from its type, so that most of them evaluate. Now and then a part of another type,
a dyn() around a part, or a missing name takes its place.
"""

import random
from typing import Any

DRIVER = "gpu.example.com"
_DOMAINS = (DRIVER, "dra.example.com", "other.example.com")
_STRINGS = (
    "",
    "a100",
    "A100-SXM",
    "1.2.3",
    "10Gi",
    "500m",
    "10.0.0.1",
    "10.0.0.0/8",
    "abc",
    "ab\u00e9c",
    "true",
    "7",
    "x",
    "--1",
    ".",
    "NaN",
    "v01.2",
    "1e400",
)
_VERSIONS = ("1.2.3", "0.0.1-alpha.1", "2.0.0", "1.2.3-rc.1+build", "10.20.30")
_QUANTITIES = (
    "40Gi",
    "1",
    "500m",
    "1.5Gi",
    "0",
    "1e3",
    "-2k",
    "80Gi",
    "1e30",
    "0.0Gi",
    "1n",
    "-9223372036854775807",
    "12345678901234567890",
    "9Ei",
)
_PATTERNS = ("a.*", "^[a-z0-9]+$", "(?i)A100", "[0-9]+", "a|b", "x{2,3}", "\\\\d+")
_URLS = (
    "http://a.example.com:80/x%20y?b=1&b=2",
    "https://[::1]:8080/?a=%41",
    "mailto:x",
    "/a/b?c",
    "http://u:p@h",
)
_ADDRESSES = (
    "10.0.0.1",
    "::1",
    "192.168.1.7",
    "0.0.0.0",
    "169.254.1.1",
    "fe80::1",
    "ff02::1",
    "224.0.0.1",
    "::",
)
_INTS = (
    "0",
    "9007199254740993",
    "1",
    "2",
    "-1",
    "7",
    "42",
    "9223372036854775807",
    "-9223372036854775808",
    "100",
)
_DOUBLES = ("0.0", "1.5", "-2.25", "1e3", "3.0", "-0.0", "9007199254740992.0", "1e-7", "1e300")


def device(choice: random.Random) -> dict[str, Any]:
    """Return a device as the API has it."""
    attributes: dict[str, Any] = {}
    for name in (
        "model",
        "family",
        "index",
        "healthy",
        "version",
        "dra.example.com/model",
        "dra.example.com/numa",
    ):
        if choice.random() < 0.7:
            attributes[name] = _attribute(choice, name)
    capacity = {
        name: {"value": choice.choice(_QUANTITIES)}
        for name in ("memory", "cores", "dra.example.com/memory")
        if choice.random() < 0.7
    }
    found: dict[str, Any] = {"name": "device-0", "attributes": attributes, "capacity": capacity}
    if choice.random() < 0.3:
        found["allowMultipleAllocations"] = choice.random() < 0.5
    return found


def _attribute(choice: random.Random, name: str) -> dict[str, Any]:
    usual = {"index": "int", "numa": "int", "healthy": "bool", "version": "version"}.get(
        name.rsplit("/", maxsplit=1)[-1], "string"
    )
    kind = usual if choice.random() < 0.85 else choice.choice(("int", "bool", "version", "string"))
    values = {
        "int": choice.randrange(-3, 100),
        "bool": choice.random() < 0.5,
        "version": choice.choice(_VERSIONS),
        "string": choice.choice(_STRINGS),
    }
    return {kind: values[kind]}


class Expressions:
    """A source of expressions."""

    def __init__(self, choice: random.Random) -> None:
        """Take the source of choices."""
        self._choice = choice
        self._locals: list[tuple[str, str]] = []

    def one(self) -> str:
        """Return an expression, usually of type bool."""
        self._locals = []
        kind = (
            "bool" if self._choice.random() < 0.97 else self._choice.choice(("int", "string", "dyn", "list"))
        )
        return self.of(kind, self._choice.randrange(1, 5))

    def of(self, kind: str, depth: int) -> str:
        """Return an expression of a type."""
        choice = self._choice
        if choice.random() < 0.02:
            kind = choice.choice(
                ("bool", "int", "string", "double", "quantity", "semver", "list", "dyn", "uint")
            )
        if choice.random() < 0.04 and kind != "dyn":
            return f"dyn({self.of(kind, depth - 1)})" if depth > 0 else self._leaf(kind)
        if depth <= 0 or choice.random() < 0.1:
            return self._leaf(kind)
        shapes = _SHAPES.get(kind)
        if shapes is None:
            return self._leaf(kind)
        return self._filled(choice.choice(shapes), depth - 1)

    def _filled(self, shape: str, depth: int) -> str:
        """Return a shape with its parts: a type is an expression, a v: is a new variable after it."""
        parts: list[str] = []
        place = added = 0
        while place < len(shape):
            if shape[place] != "<" or not shape[place + 1].isalpha():
                parts.append(shape[place])
                place += 1
                continue
            end = shape.index(">", place)
            word = shape[place + 1 : end]
            place = end + 1
            if word.startswith("v:"):
                name = f"v{len(self._locals)}"
                self._locals.append((name, word[2:]))
                added += 1
                parts.append(name)
            elif word == "pattern":
                parts.append("'" + self._choice.choice(_PATTERNS) + "'")
            else:
                parts.append(self.of(word, depth))
        del self._locals[len(self._locals) - added :]
        return "".join(parts)

    def _leaf(self, kind: str) -> str:
        choice = self._choice
        known = [name for name, held in self._locals if held == kind]
        if known and choice.random() < 0.6:
            return choice.choice(known)
        match kind:
            case "bool":
                return choice.choice(
                    ("true", "false", "device.allowMultipleAllocations", "has(device.attributes)")
                )
            case "int":
                return choice.choice(_INTS)
            case "uint":
                return choice.choice(("0u", "1u", "7u", "18446744073709551615u"))
            case "double":
                return choice.choice(_DOUBLES)
            case "string":
                return choice.choice(("device.driver", *(f"'{text}'" for text in _STRINGS)))
            case "bytes":
                return choice.choice(("b'abc'", "b''", "b'\\\\xff'"))
            case "quantity":
                return choice.choice((f"quantity('{choice.choice(_QUANTITIES)}')", self._capacity()))
            case "semver":
                return f"semver('{choice.choice(_VERSIONS)}')"
            case "list":
                return choice.choice(("[1, 2, 3]", "[3, 1, 2, 1]", "[7]"))
            case "strings":
                return choice.choice(("['a', 'b']", "['b', 'a100', 'a']", "['x']"))
            case "map":
                return choice.choice(("{'a': 1, 'b': 2}", "{'x': 7}"))
            case "optional":
                return choice.choice(("optional.none()", "optional.of(1)"))
            case "duration":
                return choice.choice(("duration('1h')", "duration('90s')", "duration('-1.5s')"))
            case "timestamp":
                return choice.choice(("timestamp('2024-02-29T12:34:56Z')", "timestamp(0)"))
            case "zone":
                return choice.choice(("'UTC'", "'+05:30'", "'-11:59'", "'Europe/Berlin'", "'x'", "''"))
            case "url":
                return f"url('{choice.choice(_URLS)}')"
            case "ip":
                return f"ip('{choice.choice(_ADDRESSES)}')"
            case "cidr":
                return choice.choice(("cidr('10.0.0.0/8')", "cidr('192.168.1.5/24')", "cidr('::/0')"))
            case "any":
                return self._attribute()
            case _:
                return choice.choice(
                    (self._attribute(), "dyn(1)", "dyn('a')", "dyn([1, 2])", "dyn({'a': 1})", "null")
                )

    def _attribute(self) -> str:
        domain = self._choice.choice(_DOMAINS)
        name = self._choice.choice(("model", "family", "index", "healthy", "version", "numa", "missing"))
        return self._choice.choice(
            (
                f"device.attributes['{domain}'].{name}",
                f"device.attributes['{domain}']['{name}']",
                f"device.attributes['{DRIVER}'].{name}",
            )
        )

    def _capacity(self) -> str:
        domain = self._choice.choice(_DOMAINS)
        return f"device.capacity['{domain}'].{self._choice.choice(('memory', 'cores', 'missing'))}"


_SHAPES: dict[str, tuple[str, ...]] = {
    "bool": (
        "<bool> && <bool>",
        "<bool> || <bool>",
        "!<bool>",
        "(<bool> ? <bool> : <bool>)",
        "<int> == <int>",
        "<int> != <int>",
        "<int> < <int>",
        "<int> >= <int>",
        "<double> < <int>",
        "<uint> <= <int>",
        "<string> == <string>",
        "<string> < <string>",
        "<any> == <string>",
        "<any> == <int>",
        "<any> != <any>",
        "<string>.startsWith(<string>)",
        "<string>.endsWith(<string>)",
        "<string>.contains(<string>)",
        "<string>.matches(<pattern>)",
        "<string>.matches(<string>)",
        "<any>.matches(<pattern>)",
        "<any>.startsWith(<string>)",
        "<int> in <list>",
        "<string> in <strings>",
        "<any> in ['a100', 'x']",
        "'model' in device.attributes['gpu.example.com']",
        "<string> in device.attributes",
        "<string> in <map>",
        "<dyn> in <map>",
        "<list>.exists(<v:int>, <bool>)",
        "<list>.all(<v:int>, <bool>)",
        "<list>.exists_one(<v:int>, <bool>)",
        "<strings>.exists(<v:string>, <bool>)",
        "{'a': <int>}.all(<v:string>, <bool>)",
        "<list>.all(<v:int>, <v:int>, <bool>)",
        "{'a': <int>}.exists(<v:string>, <v:int>, <bool>)",
        "device.attributes['gpu.example.com'].all(k, k != 'other')",
        "<quantity>.isGreaterThan(<quantity>)",
        "<quantity>.isLessThan(<quantity>)",
        "<quantity>.isInteger()",
        "<quantity> == <quantity>",
        "isQuantity(<string>)",
        "isSemver(<string>)",
        "isSemver(<string>, true)",
        "<semver>.isGreaterThan(<semver>)",
        "<semver>.isLessThan(<semver>)",
        "<semver> == <semver>",
        "<any>.isGreaterThan(<semver>)",
        "<optional>.hasValue()",
        "<optional> == <optional>",
        "has(device.attributes['gpu.example.com'].model)",
        "has(device.capacity['dra.example.com'].memory)",
        "has(device.attributes['gpu.example.com'].missing)",
        "<list> == <list>",
        "<map> == <map>",
        "<list>.isSorted()",
        "sets.contains(<list>, <list>)",
        "sets.intersects(<list>, <list>)",
        "sets.equivalent(<list>, <list>)",
        "cel.bind(<v:int>, <int>, <bool>)",
        "cel.bind(<v:string>, <string>, <bool>)",
        "isIP(<string>)",
        "isCIDR(<string>)",
        "<ip>.isLoopback()",
        "<ip>.isUnspecified()",
        "<ip>.isGlobalUnicast()",
        "<ip>.isLinkLocalUnicast()",
        "<ip>.isLinkLocalMulticast()",
        "<any>.includes(<string>)",
        "<string> in <url>.getQuery()",
        "<url> == <url>",
        "<cidr>.containsIP(<ip>)",
        "<cidr>.containsIP(<string>)",
        "<cidr>.containsCIDR(<cidr>)",
        "isURL(<string>)",
        "<dyn> == <dyn>",
        "<dyn> != <int>",
        "type(<dyn>) == <type>",
        "type(<int>) == int",
        "bool(<string>)",
        "<timestamp> < <timestamp>",
        "<duration> >= <duration>",
        "<bytes> == <bytes>",
        "<any>",
        "<dyn> < <int>",
        "format.dns1123Label().validate(<string>).hasValue()",
        "<dyn> in <list>",
        "<string>.find(<pattern>) == <string>",
        "<any> == <semver>",
        "<any> > <int>",
        "<double> == <int>",
        "<int> in [1, 2, 7]",
        "ip.isCanonical(<string>)",
        "<ip> == <ip>",
        "<cidr> == <cidr>",
        "<optional>.orValue(1) == <int>",
    ),
    "int": (
        "<int> + <int>",
        "<int> - <int>",
        "<int> * <int>",
        "<int> / <int>",
        "<int> % <int>",
        "-<int>",
        "size(<string>)",
        "<list>.size()",
        "<map>.size()",
        "(<bool> ? <int> : <int>)",
        "<list>[<int>]",
        "<map>['a']",
        "<map>[<string>]",
        "<list>.sum()",
        "<list>.max()",
        "<list>.min()",
        "<list>.indexOf(<int>)",
        "<strings>.lastIndexOf(<string>)",
        "<string>.indexOf(<string>)",
        "<string>.lastIndexOf(<string>)",
        "<string>.indexOf(<string>, <int>)",
        "<quantity>.compareTo(<quantity>)",
        "<quantity>.sign()",
        "sign(<quantity>)",
        "<quantity>.asInteger()",
        "<semver>.major()",
        "<semver>.compareTo(<semver>)",
        "<optional>.orValue(<int>)",
        "<optional>.value()",
        "int(<string>)",
        "int(<double>)",
        "int(<uint>)",
        "<ip>.family()",
        "<cidr>.prefixLength()",
        "cel.bind(<v:int>, <int>, <v:int> + 1)",
        "<timestamp>.getFullYear()",
        "<timestamp>.getMonth(<zone>)",
        "<timestamp>.getDate(<zone>)",
        "<timestamp>.getDayOfMonth()",
        "<timestamp>.getDayOfYear(<zone>)",
        "<timestamp>.getHours(<zone>)",
        "<timestamp>.getMinutes(<zone>)",
        "<timestamp>.getSeconds()",
        "<timestamp>.getMilliseconds()",
        "<duration>.getHours()",
        "<duration>.getSeconds()",
        "<duration>.getMilliseconds()",
        "<semver>.minor()",
        "<semver>.patch()",
        "<timestamp>.getDayOfWeek()",
        "<duration>.getMinutes()",
        "<list>.map(<v:int>, <int>).sum()",
        "<list>.filter(<v:int>, <bool>).size()",
        "<list>.first().orValue(<int>)",
        "<list>[?<int>].orValue(<int>)",
        "<map>.?a.orValue(<int>)",
        "<map>[?<string>].orValue(<int>)",
        "int(<timestamp>)",
        "size(<any>)",
        "<list>.reverse()[0]",
    ),
    "uint": ("<uint> + <uint>", "uint(<int>)", "<uint> - <uint>", "uint(<string>)", "<uint> % <uint>"),
    "double": (
        "<double> + <double>",
        "<double> / <double>",
        "double(<int>)",
        "double(<string>)",
        "<quantity>.asApproximateFloat()",
        "-<double>",
    ),
    "string": (
        "<string> + <string>",
        "<url>.getScheme()",
        "<url>.getHost()",
        "<url>.getHostname()",
        "<url>.getPort()",
        "<url>.getEscapedPath()",
        "<string>.lowerAscii()",
        "<string>.upperAscii()",
        "<string>.trim()",
        "string(<int>)",
        "string(<double>)",
        "string(<bool>)",
        "<string>.substring(<int>)",
        "<string>.substring(0, <int>)",
        "<string>.charAt(<int>)",
        "<string>.replace(<string>, <string>)",
        "<strings>.join()",
        "<strings>.join(<string>)",
        "(<bool> ? <string> : <string>)",
        "<string>.find(<pattern>)",
        "<strings>[<int>]",
        "strings.quote(<string>)",
        "'%s-%d'.format([<string>, <int>])",
        "'%s'.format([<list>])",
        "string(<ip>)",
        "string(<cidr>)",
        "string(<timestamp>)",
        "string(<duration>)",
        "string(<bytes>)",
        "'%x %b %o'.format([<int>, <int>, <int>])",
        "cel.bind(<v:string>, <string>, <v:string> + 'x')",
        "'%f'.format([<double>])",
        "'%e'.format([<double>])",
        "'%.15e'.format([<double>])",
        "'%.2f'.format([<double>])",
        "string(<uint>)",
    ),
    "bytes": ("bytes(<string>)", "<bytes> + <bytes>"),
    "quantity": (
        "<quantity>.add(<quantity>)",
        "<quantity>.sub(<quantity>)",
        "<quantity>.add(<int>)",
        "quantity(<string>)",
        "<quantity>.sub(<int>)",
    ),
    "semver": ("semver(<string>)", "semver(<string>, true)"),
    "list": (
        "<list> + <list>",
        "<list>.map(<v:int>, <int>)",
        "<list>.filter(<v:int>, <bool>)",
        "[<int>, <int>]",
        "<list>.map(<v:int>, <bool>, <int>)",
        "<list>.slice(<int>, <int>)",
        "<list>.reverse()",
        "<list>.distinct()",
        "<list>.sort()",
        "<list>.sortBy(<v:int>, <int>)",
        "lists.range(7)",
        "lists.range(-1)",
        "[<list>, <list>].flatten()",
        "[?<optional>, <int>]",
        "<list>.transformList(<v:int>, <v:int>, <int>)",
        "(<bool> ? <list> : <list>)",
        "optional.unwrap([<optional>, <optional>])",
        "[<dyn>, <dyn>]",
        "[<int>, <string>]",
    ),
    "strings": (
        "<string>.split(<string>)",
        "<strings> + <strings>",
        "[<string>, <string>]",
        "<strings>.sort()",
        "<string>.findAll(<pattern>)",
        "<strings>.map(<v:string>, <string>)",
        "<string>.split(<string>, <int>)",
    ),
    "map": (
        "{<string>: <int>}",
        "{'a': <int>, <string>: <int>}",
        "{?'a': <optional>}",
        "{'a': <int>}.transformMap(<v:string>, <v:int>, <int>)",
        "<list>.transformMap(<v:int>, <v:int>, <int>).size() == 0 ? {'a': 1} : {'b': 2}",
    ),
    "optional": (
        "optional.of(<int>)",
        "optional.ofNonZeroValue(<int>)",
        "<map>.?a",
        "<map>[?'b']",
        "<list>[?<int>]",
        "<optional>.or(<optional>)",
        "<optional>.optMap(<v:int>, <int>)",
        "<optional>.optFlatMap(<v:int>, <optional>)",
        "<list>.last()",
    ),
    "duration": ("<duration> + <duration>", "duration(<string>)", "<timestamp> - <timestamp>"),
    "timestamp": ("<timestamp> + <duration>", "timestamp(<int>)", "timestamp(<string>)"),
    "url": ("url(<string>)",),
    "ip": ("ip(<string>)", "<cidr>.ip()"),
    "cidr": ("cidr(<string>)", "<cidr>.masked()"),
    "dyn": (
        "<any>",
        "dyn(<int>)",
        "dyn(<string>)",
        "device.attributes['gpu.example.com'].?model.orValue(<string>)",
        "<dyn> + <dyn>",
        "<dyn>.size()",
        "<dyn>[<int>]",
        "<dyn>.a",
        "(<bool> ? dyn(<int>) : dyn(<string>))",
        "device.attributes.?missing.?x.orValue(<int>)",
    ),
}
