"""Expressions that are the worst for a function or for the compiler, to compare the time of a unit of effort.

A tenant chooses the function, and the text that is the worst for it. Each case calls one function, with texts
and lists as long as an evaluation can make, or with short ones and often.
"""

from collections.abc import Callable

from tests.support.kubecel.nesting import bound, within

from kubecel import PlainDevice, SelectorCompileError, compile_selector
from kubecel.devices import prepare_device
from kubecel.selector import SelectorCache

MINOR = 37
DEVICE = prepare_device("gpu.example.com", PlainDevice(), MINOR)

_WIDE = "\U00010000"


def long(text: str, doublings: int, result: str) -> str:
    """Return an expression with a text or a list, added to itself many times, for each $ of the result."""
    return bound(text, doublings, "$ + $", result)


def often(times: int, body: str) -> str:
    """Return an expression that evaluates a body for each number x below a count."""
    return f"lists.range({times}).all(x, {body})"


def _text(part: str, result: str) -> str:
    """Return an expression with a text of 655,360 characters, or a few less, for each $ of the result."""
    return long(f"'{part * 10}'", 16 - (len(part) - 1).bit_length(), result)


CASES = {
    "loop": often(50_000, "x >= 0"),
    "conditions": often(20_000, "x > 0 ? (x > 1 ? x > 2 || true : true) : true"),
    "sums": often(20_000, "x + x - x * 2 == 0"),
    "errors": often(10_000, "1 / (x - x) == 1 || true"),
    "errors in sums": often(300, f"1 / (x - x){'+ 1' * 90} == 1 || true"),
    "errors in loops": often(1000, "[x].exists(y, [y].exists(z, [z].map(a, a / (a - a)) == [])) || true"),
    "missing keys": often(
        5000, "device.attributes['a'].b == x || {'a': 1}['b'] == x || [1][x + 1] == 1 || true"
    ),
    "absent values": often(5000, "device.attributes[?'a'].?b.?c.orValue(true)"),
    "doubled macros": "optional.of(1)" + ".optMap(a, a)" * 12 + ".hasValue()",
    "constants": often(300, f"[{','.join(['1'] * 1500)}, x].size() == 1501"),
    "terms": often(300, " && ".join(["true"] * 1200)),
    "membership": often(300, f"!(x in [{','.join(f'-{n}' for n in range(1, 1200))}])"),
    "map": often(300, f"{{{','.join(f'{n}: x' for n in range(600))}}}.size() == 600"),
    "lastIndexOf": _text("a", "$.lastIndexOf('ab' + $.substring(0, 300000)) == -1"),
    "lastIndexOf wide": _text(_WIDE, f"$.lastIndexOf('{_WIDE}b' + $.substring(0, 300000)) == -1"),
    "indexOf": _text("a", "$.indexOf($.substring(0, 300000) + 'b' + $.substring(0, 150000)) == -1"),
    "indexOf of nearly all": _text(
        "a", "$.indexOf($.substring(0, 327000) + 'b' + $.substring(0, 327000)) == -1"
    ),
    "indexOf in a short text": long(
        "'aaaaaaaaaa'",
        11,
        "lists.range(50).all(x, $.indexOf($.substring(0, 5000) + 'b' + $.substring(0, 5000)) == -1)",
    ),
    "contains": _text(_WIDE, f"!$.contains('{_WIDE * 50}b{_WIDE * 40}')"),
    "startsWith": _text(_WIDE, "lists.range(5).all(x, $.startsWith($))"),
    "replace": _text(_WIDE, f"$.replace('{_WIDE}', 'b').size() > 0"),
    "replace of a pair": _text("a", "$.replace('aa', 'bbb').size() > 0"),
    "replace long": _text("a", "$.replace($.substring(0, 150), 'b').size() > 0"),
    "split": _text(_WIDE, f"$.split('{_WIDE}').size() > 0"),
    "split long": _text("a", "$.split($.substring(0, 150)).size() > 0"),
    "split characters": long(f"'{_WIDE * 10}'", 15, "$.split('').size() > 0"),
    "join": long(f"['{_WIDE}b']", 18, "$.join().size() > 0"),
    "lowerAscii": _text(_WIDE, "$.lowerAscii() == $"),
    "trim": _text("\u3000", "$.trim() == ''"),
    "quote": long("'\"'", 18, "strings.quote($).size() > 0"),
    "substring": _text(_WIDE, "lists.range(5).all(x, $.substring(x).size() > 0)"),
    "text comparison": _text(
        _WIDE, "cel.bind(t, $.substring(1), lists.range(5).all(x, t <= $.substring(1)))"
    ),
    "text equality": _text(
        _WIDE, "cel.bind(t, $.substring(1), cel.bind(u, $.substring(1), lists.range(5).all(x, t == u)))"
    ),
    "text sum": _text(_WIDE, "lists.range(9).all(x, ($ + string(x)).size() > 0)"),
    "list sum": long("[1]", 17, "lists.range(30).all(x, ($ + [x]).size() > 0)"),
    "list equality": long("[1]", 17, "$ == $"),
    "nested equality": long("[[1], [2]]", 14, "$ == $"),
    "list in": long("[1]", 17, "!(2 in $)"),
    "text in": long("['a']", 17, "!('b' in $)"),
    "indexOf list": long("[1]", 17, "$.indexOf(2) == -1"),
    "includes": long("[1]", 17, "!dyn($).includes(2)"),
    "max": long("[1]", 17, "$.max() == 1"),
    "sum": long("[1]", 17, "$.sum() > 1"),
    "isSorted": long("[1]", 17, "$.isSorted()"),
    "reverse": long("[1]", 17, "lists.range(4).all(x, $.reverse().size() > 0)"),
    "slice": long("[1]", 17, "lists.range(6).all(x, $.slice(x, 100000).size() > 0)"),
    "range": "lists.range(500000).size() > 0",
    "flatten": long("[[1]]", 16, "$.flatten().size() > 0"),
    "flatten empty": long("[[]]", 16, "dyn($).flatten(9).size() == 0"),
    "unwrap": long("[optional.of(1)]", 16, "optional.unwrap($).size() > 0"),
    "distinct": "lists.range(600).distinct().size() == 600",
    "sets": "sets.contains(lists.range(600), lists.range(600))",
    "sets both ways": "sets.equivalent(lists.range(400), lists.range(400))",
    "sets apart": "!sets.intersects(lists.range(600), lists.range(600).map(x, -1 - x))",
    "sort": "lists.range(600).map(x, -x).sort().size() == 600",
    "sort texts": long("'aaaaaaaaaa'", 10, "lists.range(300).map(x, $ + string(-x)).sort().size() == 300"),
    "key": _text(_WIDE, "{$: 1}.size() == 1 && lists.range(5).all(x, !($.substring(x) in {'a': 1}))"),
    "format texts": _text("a", "'%s'.format([[$]]).size() > 0"),
    "format list": long("[1]", 16, "'%s'.format([$]).size() > 0"),
    "format clauses": long("'%d'", 14, "$.format(lists.range(16384)).size() > 0"),
    "format hex": _text(_WIDE, "'%x'.format([$.substring(0, 100000)]).size() > 0"),
    "format number": often(3000, "'%.300f'.format([1e300]).size() > 0"),
    "transformMap": "lists.range(50000).transformMap(i, v, v).size() == 50000",
    "map loop": "lists.range(50000).map(x, x).size() == 50000",
    "bytes": _text(_WIDE, "string(bytes($)) == $"),
    "int": _text("1", "(int($) == 1) || true"),
    "double": _text("1", "(double('0.' + $) == 1.0) || true"),
    "bool": _text("1", "bool($) || true"),
    "duration": long("'1h1h1h1h1h'", 14, "(duration($) > duration('1s')) || true"),
    "timestamp": _text("1", "(timestamp('2020-01-01T00:00:00.' + $ + 'Z') > timestamp(0)) || true"),
    "ip": _text(":", "!isIP($)"),
    "ip of digits": _text("1", "!isIP($)"),
    "cidr": _text("1", "!isCIDR($ + '/1')"),
    "url": _text("%41", "isURL('http://a/' + $)"),
    "url path": _text("%41", "url('http://a/' + $).getEscapedPath().size() > 0"),
    "url query": _text("a=b&", "url('http://a/?' + $).getQuery().size() > 0"),
    "url equality": long(
        "'aaaaaaaaaa'", 12, "cel.bind(u, url('http://a/' + $), lists.range(4).all(x, u == u))"
    ),
    "semver": _text("1.", "(semver('1.0.0-' + $ + '1').major() == 1)"),
    "semver comparison": long(
        "'1.1.1.1.1.'",
        12,
        "cel.bind(v, semver('1.0.0-' + $ + '1'), lists.range(4).all(x, v.compareTo(v) == 0))",
    ),
    "validate": long("'a.a.a.a.a.'", 10, "format.dns1123Subdomain().validate($ + 'a').hasValue()"),
    "validate base64": long("'aaaaaaaaaa'", 10, "format.byte().validate($).hasValue() || true"),
    "quantity": often(2000, f"isQuantity('{'1' * 900}' + string(x))"),
    "short quantity": often(3000, "quantity(string(x) + 'Gi').isInteger()"),
    "short ip": often(3000, "ip('10.0.0.' + string(x % 256)).family() == 4"),
    "short ip6": often(2000, "ip('2001:db8::' + string(x % 256)).family() == 6"),
    "short cidr": often(2000, "cidr('10.0.0.0/8').containsIP('10.0.0.' + string(x % 256))"),
    "short canonical": often(2000, "ip.isCanonical('10.0.0.' + string(x % 256))"),
    "short networks": often(2000, "cidr('10.0.0.0/8').containsCIDR('10.0.0.0/' + string(8 + x % 25))"),
    "short url": often(2000, "url('http://a.example.com/' + string(x)).getPort() == ''"),
    "short semver": often(3000, "semver('1.2.' + string(x)).major() == 1"),
    "short timestamp": often(3000, "timestamp('2020-01-01T00:00:00Z').getHours('+05:30') >= 0"),
    "short zone": often(300, "timestamp(0).getHours('Xx' + string(x)) >= 0 || true"),
    "zone": _text("1", "timestamp(0).getHours($ + ':') == 1 || true"),
    "short format": often(3000, "'%d %s %.2f'.format([x, 'a', 1.5]).size() > 0"),
    "short double": often(3000, "string(double(string(x) + '.5')).size() > 0"),
    "short label": often(3000, "!format.dns1123Label().validate('a' + string(x)).hasValue()"),
    "short split": often(3000, "'a,b,c'.split(',').join('-').size() > 0"),
    "short replace": often(3000, "string(x).replace('1', '2').upperAscii().size() > 0"),
    "short optional": often(5000, "optional.of(x).optMap(v, v).orValue(1) >= 0"),
    "matches": long("'aaaaaaaaaa'", 10, "!$.matches('(a|b)*c')"),
    "matches short": often(3000, "string(x).matches('^[0-9]+$')"),
    "matches class": long("'aaaaaaaaaa'", 10, "$.matches('(?i)[^b-z]*')"),
    "find": long("'aaaaaaaaaa'", 10, "$.find('a+') == $"),
    "findAll": long("'abababab'", 10, "$.findAll('ab').size() > 0"),
    "patterns": often(500, "'a'.matches('[a-z]\\\\pL' + string(x)) || true"),
    "refused patterns": often(500, "'a'.matches('(a{1,900}b){30}c' + string(x)) || true"),
    "many instructions": often(100, "'a'.matches('(a{1,30}){1,30}b' + string(x)) || true"),
    "empty repetitions": often(100, "'a'.matches('(){900}b' + string(x)) || true"),
    "wide classes": often(
        100, "'a'.matches('(?i)[\\\\x{1}-\\\\x{10ffff}][\\\\pL\\\\PL]' + string(x)) || true"
    ),
}


def _repeated(part: str, times: int, sign: str = " && ") -> str:
    return sign.join(part.replace("#", str(number)) for number in range(times))


COMPILED = {
    "a chain": _repeated("true", 1200),
    "comparisons": _repeated("dyn(#) < #", 500),
    "sums": _repeated("1+1+1+1+1+1+1+1+1+1 == #", 340),
    "empty lists": _repeated("[] == []", 800),
    "a list": f"[{_repeated('#', 2000, ',')}] == []",
    "conversions": _repeated("quantity('#') == quantity('1')", 280),
    "nested macros": within(38, "[1].map(v#, true, $) == []"),
    "nested maps": within(38, "[1].transformMap(k#, v#, true, $) == {}"),
    "doubled types": bound("{1: 1}", 30, "{$: $}", "$ == $"),
    "doubled types of nothing": bound("{}", 30, "{$: $}", "$ == $"),
    "many doubled types": bound("{1: 1}", 14, "{$: $}", _repeated("{$: $} == {$: $}", 250)),
    "a doubled type in errors": bound("{1: 1}", 25, "{$: $}", _repeated("($ + # == $)", 300)),
    "unknown names": _repeated("a#", 1000, " || "),
    "unknown functions": _repeated("f(#)", 900),
    "unknown signs": "$" * 9000,
    "unfinished texts": '"""a' * 2500,
    "signs": "-" * 9000 + "1 == 1",
    "selections": within(18, "(true ? $ : {'a': 1})", "{'a': 1}") + ".a" * 60 + " == 1",
    "patterns": _repeated("'a'.matches('[a-z]\\\\pL#')", 290, " || "),
    "folded classes": "'a'.matches('(?i)"
    + "".join(f"[\\\\x{{{at}}}-\\\\x{{10ff{at}}}]" for at in range(10, 99)) * 4
    + "')",
    "folded letters": "'a'.matches('(?i)" + "\\\\pL\\\\PL[^\\\\pN]" * 400 + "')",
    "instructions": "'a'.matches('(a{1,30}){1,30}') || " * 60 + "true",
    "empty repetitions": "'a'.matches('(){1000}(){1000}') || " * 280 + "true",
    "groups": _repeated("'a'.matches('" + "(" * 49 + "a" + ")" * 49 + "')", 80, " || "),
}


def evaluation(name: str) -> Callable[[], int]:
    """Compile a case, and return a function that evaluates it and returns the effort charged."""
    selector = compile_selector(CASES[name], MINOR)

    def evaluate() -> int:
        answer = selector.evaluate(DEVICE)
        if not answer.selected:
            raise AssertionError(answer)
        return answer.effort

    return evaluate


def compilation(name: str) -> Callable[[], int]:
    """Return a function that compiles an expression and returns the effort charged, even for an error."""

    def compile_expression() -> int:
        try:
            return SelectorCache().get(COMPILED[name], MINOR)[1]
        except SelectorCompileError as error:
            return error.effort

    return compile_expression
