"""The names of Go's types, which errors of upstream show.

Source: the types that values of cel-go and of Kubernetes' libraries have in Go.
"""

from podium.cel.quantities import QuantityValue
from podium.cel.values import type_name

_NAMES = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_type(value: object) -> str:
    """Return the name of the Go type of a value; sums of quantities are pointers."""
    name = type_name(value)
    pointer = isinstance(value, QuantityValue) and value.pointer
    return f"{'*' if pointer else ''}{_NAMES.get(name, name)}"
