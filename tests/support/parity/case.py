"""The writes to both servers, as values: the form of a case, and the values of cases.

A case is a create, or a create and one change of the stored object. `rows` are the row numbers in
docs/admission.md. No case holds the expected answer: it comes from the server with the Workload API.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tests.support.admission.edits import Edit
from tests.support.admission.scene import MAX_PRIORITY, Dialect

from podium.api.minors import GROUP_MINORS

Document = dict[str, Any]

# The version that the native kinds of a minor share with Podium's.
VERSIONS = {minor.name: minor.kinds["PodGroup"].stored for minor in GROUP_MINORS.values()}

# PriorityClasses on both servers, by name; the last two are the default in some cases.
CLASSES = {"gold": 1000, "silver": 1000, "zero": 0, "top": MAX_PRIORITY, "never": 500}
STANDARD, NEGATIVE = "standard", "negative"
DEFAULTS = {STANDARD: 100, NEGATIVE: -10}

# A Workload on both servers, and its templates.
WORKLOAD, TEMPLATES = "llm", ("worker", "leader")

GANG = {"gang": {"minCount": 2}}
BASIC: Document = {"basic": {}}
TIME = "2026-01-01T00:00:00Z"
RACK = {"topology": [{"key": "example.com/rack"}]}
CLAIM = {"name": "gpu", "resourceClaimName": "gpu-1"}


class Case(NamedTuple):
    """A create, or a change if there are edits."""

    rows: str
    name: str
    kind: str
    document: Document  # metadata and spec; the runner chooses the name
    edits: Sequence[Edit] | None = None
    base: Literal["stored", "sent"] = "stored"  # the edited object; server-side apply takes the sent one
    subresource: Literal["", "status"] = ""
    default: str = ""  # the class that is the default meanwhile
    deleted: bool = False  # whether it is deleted, and held by a finalizer, when it is changed

    @property
    def update(self) -> bool:
        return self.edits is not None

    def __str__(self) -> str:
        return f"{self.rows} {self.kind} {self.name}"


def group(**spec: Any) -> Document:
    """Return a PodGroup that is a gang of two by default; fields that are None are left out."""
    return {"spec": given({"schedulingPolicy": GANG} | spec)}


def template(name: str = "a", **spec: Any) -> Document:
    return given({"name": name, "schedulingPolicy": GANG} | spec)


def workload(*templates: Any, **spec: Any) -> Document:
    """A Workload of these templates, or of one gang."""
    return {"spec": given({"podGroupTemplates": list(templates or [template()])} | spec)}


def given(fields: Document) -> Document:
    return {key: value for key, value in fields.items() if value is not None}


BAD_POLICIES: tuple[tuple[str, Any], ...] = (
    ("none of two policies", {}),
    ("both policies", BASIC | GANG),
    ("no minCount", {"gang": {}}),
    ("minCount 0", {"gang": {"minCount": 0}}),
    ("minCount -1", {"gang": {"minCount": -1}}),
    ("minCount as text", {"gang": {"minCount": "2"}}),
    ("minCount beyond 32 bits", {"gang": {"minCount": 2**31}}),
    ("minCount with a fraction", {"gang": {"minCount": 1.5}}),
    ("policy as text", "gang"),
    ("gang null", {"gang": None}),
    ("one null beside the other", {"basic": None, "gang": {"minCount": 2}}),
)


def bad_modes(dialect: Dialect) -> list[tuple[str, Any]]:
    return [(f"bad mode {number}: {mode!r}", mode) for number, mode in enumerate(dialect.bad_modes)]
