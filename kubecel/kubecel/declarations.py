"""Functions that the environment of device selectors declares: names, overloads and their types.

kube-scheduler compiles selectors for stored expressions: every library is there, whatever its gate. A
minor has its own table, because libraries grow.

Source: k8s.io/apiserver/pkg/cel/environment/base.go, k8s.io/dynamic-resource-allocation/cel/compile.go,
cel-go common/stdlib and ext.
"""

import re
from functools import cache
from typing import NamedTuple

from kubecel import statictypes as types
from kubecel.statictypes import StaticType


class Overload(NamedTuple):
    """One signature of a function; a member is called on its first argument."""

    identifier: str
    member: bool
    arguments: tuple[StaticType, ...]
    result: StaticType
    parameters: tuple[str, ...]


_ORDERED = (
    "bool", "int", "int:double", "int:uint", "uint", "uint:double", "uint:int", "double", "double:int",
    "double:uint",
    "string", "bytes", "timestamp", "duration",
)  # fmt: skip
_WORDS = {"int": "int64", "uint": "uint64"}

_STANDARD = """
conditional _?_:_(bool, A, A) A
logical_and _&&_(bool, bool) bool
logical_or _||_(bool, bool) bool
logical_not !_(bool) bool
not_strictly_false @not_strictly_false(bool) bool
equals _==_(A, A) bool
not_equals _!=_(A, A) bool
add_bytes _+_(bytes, bytes) bytes
add_double _+_(double, double) double
add_duration_duration _+_(duration, duration) duration
add_duration_timestamp _+_(duration, timestamp) timestamp
add_timestamp_duration _+_(timestamp, duration) timestamp
add_int64 _+_(int, int) int
add_list _+_(list(A), list(A)) list(A)
add_string _+_(string, string) string
add_uint64 _+_(uint, uint) uint
divide_double _/_(double, double) double
divide_int64 _/_(int, int) int
divide_uint64 _/_(uint, uint) uint
modulo_int64 _%_(int, int) int
modulo_uint64 _%_(uint, uint) uint
multiply_double _*_(double, double) double
multiply_int64 _*_(int, int) int
multiply_uint64 _*_(uint, uint) uint
negate_double -_(double) double
negate_int64 -_(int) int
subtract_double _-_(double, double) double
subtract_duration_duration _-_(duration, duration) duration
subtract_int64 _-_(int, int) int
subtract_timestamp_duration _-_(timestamp, duration) timestamp
subtract_timestamp_timestamp _-_(timestamp, timestamp) duration
subtract_uint64 _-_(uint, uint) uint
index_list _[_](list(A), int) A
index_map _[_](map(A, B), A) B
in_list @in(A, list(A)) bool
in_map @in(A, map(A, B)) bool
size_bytes size(bytes) int
bytes_size bytes::size() int
size_list size(list(A)) int
list_size list(A)::size() int
size_map size(map(A, B)) int
map_size map(A, B)::size() int
size_string size(string) int
string_size string::size() int
type type(A) type(A)
bool_to_bool bool(bool) bool
string_to_bool bool(string) bool
bytes_to_bytes bytes(bytes) bytes
string_to_bytes bytes(string) bytes
double_to_double double(double) double
int64_to_double double(int) double
string_to_double double(string) double
uint64_to_double double(uint) double
duration_to_duration duration(duration) duration
int64_to_duration duration(int) duration
string_to_duration duration(string) duration
to_dyn dyn(A) dyn
int64_to_int64 int(int) int
double_to_int64 int(double) int
duration_to_int64 int(duration) int
string_to_int64 int(string) int
timestamp_to_int64 int(timestamp) int
uint64_to_int64 int(uint) int
string_to_string string(string) string
bool_to_string string(bool) string
bytes_to_string string(bytes) string
double_to_string string(double) string
duration_to_string string(duration) string
int64_to_string string(int) string
timestamp_to_string string(timestamp) string
uint64_to_string string(uint) string
timestamp_to_timestamp timestamp(timestamp) timestamp
int64_to_timestamp timestamp(int) timestamp
string_to_timestamp timestamp(string) timestamp
uint64_to_uint64 uint(uint) uint
double_to_uint64 uint(double) uint
int64_to_uint64 uint(int) uint
string_to_uint64 uint(string) uint
contains_string string::contains(string) bool
ends_with_string string::endsWith(string) bool
starts_with_string string::startsWith(string) bool
matches matches(string, string) bool
matches_string string::matches(string) bool
timestamp_to_year timestamp::getFullYear() int
timestamp_to_year_with_tz timestamp::getFullYear(string) int
timestamp_to_month timestamp::getMonth() int
timestamp_to_month_with_tz timestamp::getMonth(string) int
timestamp_to_day_of_year timestamp::getDayOfYear() int
timestamp_to_day_of_year_with_tz timestamp::getDayOfYear(string) int
timestamp_to_day_of_month timestamp::getDayOfMonth() int
timestamp_to_day_of_month_with_tz timestamp::getDayOfMonth(string) int
timestamp_to_day_of_month_1_based timestamp::getDate() int
timestamp_to_day_of_month_1_based_with_tz timestamp::getDate(string) int
timestamp_to_day_of_week timestamp::getDayOfWeek() int
timestamp_to_day_of_week_with_tz timestamp::getDayOfWeek(string) int
timestamp_to_hours timestamp::getHours() int
timestamp_to_hours_with_tz timestamp::getHours(string) int
duration_to_hours duration::getHours() int
timestamp_to_minutes timestamp::getMinutes() int
timestamp_to_minutes_with_tz timestamp::getMinutes(string) int
duration_to_minutes duration::getMinutes() int
timestamp_to_seconds timestamp::getSeconds() int
timestamp_to_seconds_tz timestamp::getSeconds(string) int
duration_to_seconds duration::getSeconds() int
timestamp_to_milliseconds timestamp::getMilliseconds() int
timestamp_to_milliseconds_with_tz timestamp::getMilliseconds(string) int
duration_to_milliseconds duration::getMilliseconds() int
"""
_KUBERNETES = """
string_to_url url(string) URL
url_get_scheme URL::getScheme() string
url_get_host URL::getHost() string
url_get_hostname URL::getHostname() string
url_get_port URL::getPort() string
url_get_escaped_path URL::getEscapedPath() string
url_get_query URL::getQuery() map(string, list(string))
is_url_string isURL(string) bool
string_find_string string::find(string) string
string_find_all_string string::findAll(string) list(string)
string_find_all_string_int string::findAll(string, int) list(string)
{lists}
authorizer_path Authorizer::path(string) PathCheck
authorizer_group Authorizer::group(string) GroupCheck
authorizer_serviceaccount Authorizer::serviceAccount(string, string) Authorizer
groupcheck_resource GroupCheck::resource(string) ResourceCheck
resourcecheck_subresource ResourceCheck::subresource(string) ResourceCheck
resourcecheck_namespace ResourceCheck::namespace(string) ResourceCheck
resourcecheck_name ResourceCheck::name(string) ResourceCheck
pathcheck_check PathCheck::check(string) Decision
resourcecheck_check ResourceCheck::check(string) Decision
decision_errored Decision::errored() bool
decision_error Decision::error() string
decision_allowed Decision::allowed() bool
decision_reason Decision::reason() string
optional_of optional.of(V) optional(V)
optional_ofNonZeroValue optional.ofNonZeroValue(V) optional(V)
optional_none optional.none() optional(V)
optional_value optional(V)::value() V
optional_hasValue optional(V)::hasValue() bool
optional_or_optional optional(V)::or(optional(V)) optional(V)
optional_orValue_value optional(V)::orValue(V) V
list_optindex_optional_int _[?_](list(V), int) optional(V)
optional_list_optindex_optional_int _[?_](optional(list(V)), int) optional(V)
map_optindex_optional_value _[?_](map(K, V), K) optional(V)
optional_map_optindex_optional_value _[?_](optional(map(K, V)), K) optional(V)
optional_list_index_int _[_](optional(list(V)), int) optional(V)
optional_map_index_value _[_](optional(map(K, V)), K) optional(V)
list_last list(V)::last() optional(V)
list_first list(V)::first() optional(V)
optional_unwrap optional.unwrap(list(optional(V))) list(V)
optional_unwrapOpt list(optional(V))::unwrapOpt() list(V)
string_to_quantity quantity(string) Quantity
is_quantity_string isQuantity(string) bool
quantity_sign sign(Quantity) int
quantity_is_greater_than Quantity::isGreaterThan(Quantity) bool
quantity_is_less_than Quantity::isLessThan(Quantity) bool
quantity_compare_to Quantity::compareTo(Quantity) int
quantity_get_float Quantity::asApproximateFloat() double
quantity_get_int Quantity::asInteger() int
quantity_is_integer Quantity::isInteger() bool
quantity_add Quantity::add(Quantity) Quantity
quantity_add_int Quantity::add(int) Quantity
quantity_sub Quantity::sub(Quantity) Quantity
quantity_sub_int Quantity::sub(int) Quantity
string_char_at_int string::charAt(int) string
string_index_of_string string::indexOf(string) int
string_index_of_string_int string::indexOf(string, int) int
string_last_index_of_string string::lastIndexOf(string) int
string_last_index_of_string_int string::lastIndexOf(string, int) int
string_lower_ascii string::lowerAscii() string
string_replace_string_string string::replace(string, string) string
string_replace_string_string_int string::replace(string, string, int) string
string_split_string string::split(string) list(string)
string_split_string_int string::split(string, int) list(string)
string_substring_int string::substring(int) string
string_substring_int_int string::substring(int, int) string
string_trim string::trim() string
string_upper_ascii string::upperAscii() string
string_format string::format(list(dyn)) string
strings_quote strings.quote(string) string
list_join list(string)::join() string
list_join_string list(string)::join(string) string
list_sets_contains_list sets.contains(list(T), list(T)) bool
list_sets_equivalent_list sets.equivalent(list(T), list(T)) bool
list_sets_intersects_list sets.intersects(list(T), list(T)) bool
string_to_ip ip(string) IP
ip_family IP::family() int
ip_is_canonical ip.isCanonical(string) bool
ip_is_unspecified IP::isUnspecified() bool
ip_is_loopback IP::isLoopback() bool
ip_is_link_local_multicast IP::isLinkLocalMulticast() bool
ip_is_link_local_unicast IP::isLinkLocalUnicast() bool
ip_is_global_unicast IP::isGlobalUnicast() bool
is_ip isIP(string) bool
ip_to_string string(IP) string
string_to_cidr cidr(string) CIDR
cidr_contains_ip_string CIDR::containsIP(string) bool
cidr_contains_ip_ip CIDR::containsIP(IP) bool
cidr_contains_cidr_string CIDR::containsCIDR(string) bool
cidr_contains_cidr CIDR::containsCIDR(CIDR) bool
cidr_ip CIDR::ip() IP
cidr_prefix_length CIDR::prefixLength() int
cidr_masked CIDR::masked() CIDR
is_cidr isCIDR(string) bool
cidr_to_string string(CIDR) string
format-validate NamedFormat::validate(string) optional(list(string))
format-named format.named(string) optional(NamedFormat)
{formats}
authorizer_fieldselector ResourceCheck::fieldSelector(string) ResourceCheck
authorizer_labelselector ResourceCheck::labelSelector(string) ResourceCheck
@mapInsert_key_value cel.@mapInsert(map(K, V), K, V) map(K, V)
@mapInsert_map cel.@mapInsert(map(K, V), map(K, V)) map(K, V)
string_to_semver semver(string) Semver
is_semver_string isSemver(string) bool
semver_is_greater_than Semver::isGreaterThan(Semver) bool
semver_is_less_than Semver::isLessThan(Semver) bool
semver_compare_to Semver::compareTo(Semver) int
semver_major Semver::major() int
semver_minor Semver::minor() int
semver_patch Semver::patch() int
string_bool_to_semver semver(string, bool) Semver
is_semver_string_bool isSemver(string, bool) bool
list_slice list(T)::slice(int, int) list(T)
list_flatten list(list(T))::flatten() list(T)
list_flatten_int list(dyn)::flatten(int) list(dyn)
{sorts}
lists_range lists.range(int) list(int)
list_reverse list(T)::reverse() list(T)
list_distinct list(T)::distinct() list(T)
"""
_INCLUDES = "list_includes_dyn_dyn dyn::includes(dyn) bool\n"
_INCLUDES_36 = "dra_includes_dyn_dyn dyn::includes(dyn) bool\n"
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip
_SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
# Upstream names overloads of the two list libraries by different texts of the same types.
_DECLARED = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

_NAMED: dict[str, StaticType] = {
    "dyn": types.DYN,
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "IP": types.IP,
    "CIDR": types.CIDR,
    "URL": types.URL,
    "Quantity": types.QUANTITY,
    "Semver": types.SEMVER,
    "NamedFormat": types.NAMED_FORMAT,
    **{
        name: StaticType("struct", f"kubernetes.authorization.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
}
_LINE = re.compile(r"(\S+) (?:(.+)::)?([^(]+)\((.*)\) (\S.*)")


def _comparisons() -> str:
    lines = []
    for function, word in (
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        ("_>_", "greater"),
        ("_>=_", "greater_equals"),
    ):
        for pair in _ORDERED:
            first, _, second = pair.partition(":")
            name = "_".join(_WORDS.get(kind, kind) for kind in pair.split(":"))
            lines.append(f"{word}_{name} {function}({first}, {second or first}) bool")
    return "\n".join(lines)


def _lists(*, includes: bool) -> str:
    lines = [f"list_{kind}_is_sorted_bool list({kind})::isSorted() bool" for kind in _SORTED]
    lines += [
        f"list_{kind}_sum_{kind} list({kind})::sum() {kind}" for kind in ("int", "uint", "double", "duration")
    ]
    for function in ("max", "min"):
        lines += [f"list_{kind}_{function}_{kind} list({kind})::{function}() {kind}" for kind in _SORTED]
    lines += [
        "list_a_index_of_int list(A)::indexOf(A) int",
        "list_a_last_index_of_int list(A)::lastIndexOf(A) int",
    ]
    return "\n".join(lines) + "\n" + (_INCLUDES if includes else "")


def _sorts() -> str:
    lines = []
    for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        name = _DECLARED.get(kind, kind)
        lines.append(f"list_{name}_sort list({kind})::sort() list({kind})")
        lines.append(f"list_{name}_sortByAssociatedKeys list(T)::@sortByAssociatedKeys(list({kind})) list(T)")
    return "\n".join(lines)


@cache
def functions(minor: int) -> dict[str, list[Overload]]:
    """Return the overloads of every function of a minor, in upstream's order."""
    lists = _lists(includes=False)
    formats = "\n".join(f"format.{name} format.{name}() NamedFormat" for name in FORMATS)
    # Kubernetes 1.37 moved its list library behind the others.
    text = _KUBERNETES.format(lists=lists if minor < 37 else "", formats=formats, sorts=_sorts())
    later = _lists(includes=True) if minor >= 37 else _INCLUDES_36
    overloads: dict[str, list[Overload]] = {}
    for line in f"{_STANDARD}{_comparisons()}\n{text}{later}".splitlines():
        match = _LINE.fullmatch(line)
        if match is None or (minor >= 37 and match[1] == "int64_to_duration"):
            continue
        identifier, target, name, arguments, result = match.groups()
        listed = [target] if target is not None else []
        signature = tuple(_read(text) for text in [*listed, *_split(arguments)])
        parameters = sorted(
            {p for argument in signature for p in _parameters(argument)} | set(_parameters(_read(result)))
        )
        overload = Overload(identifier, target is not None, signature, _read(result), tuple(parameters))
        overloads.setdefault(name, []).append(overload)
    return overloads


def _split(text: str) -> list[str]:
    """Return the types of a list of arguments, split at commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _read(text: str) -> StaticType:
    name, _, inner = text.partition("(")
    if not inner:
        return _NAMED.get(name) or types.parameter(name)
    parameters = tuple(_read(part) for part in _split(inner[:-1]))
    return types.optional_of(parameters[0]) if name == "optional" else StaticType(name, name, parameters)


def _parameters(static_type: StaticType) -> list[str]:
    if static_type.kind == "param":
        return [static_type.name]
    return [name for inner in static_type.parameters for name in _parameters(inner)]


TYPE_NAMES: dict[str, StaticType] = {
    static_type.name: static_type
    for static_type in (
        types.BOOL, types.BYTES, types.DOUBLE, types.DURATION, types.INT, types.NULL, types.STRING,
        types.TIMESTAMP,         types.UINT, types.IP, types.CIDR,
    )
} | {
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
    "type": types.TYPE,
    "optional_type": types.optional_of(types.DYN),
}  # fmt: skip


@cache
def device_fields(minor: int) -> dict[str, StaticType]:
    """Return the fields of the variable `device`: from 1.37 an attribute may be a list, so it is dyn."""
    attribute = types.DYN if minor >= 37 else types.ANY
    return {
        "driver": types.STRING,
        "allowMultipleAllocations": types.BOOL,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
