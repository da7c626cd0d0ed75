"""CompositePodGroup, of which only the presence is judged: Kubernetes 1.37 serves it behind an alpha gate.

Its fields pass through unchecked, and the verdict says so.
"""

from podium.rules import metadata
from podium.rules.context import RuleContext
from podium.rules.decoding import struct, text
from podium.rules.fields import FieldError
from podium.rules.schema import Document, StructSchema

PLURAL = "compositepodgroups"
NAMESPACED = True
HAS_STATUS = True
SHAPE = StructSchema(
    "CompositePodGroup",
    (text("apiVersion"), text("kind"), struct("metadata", metadata.OBJECT_META, "v1.ObjectMeta")),
    opened=True,
)


def shape(_version: str) -> StructSchema:
    """Return the table of the one version."""
    return SHAPE


def default(_document: Document, _version: str) -> None:
    """Do nothing: no rule reads its fields."""


def mutate(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no rule reads its fields."""


def prepare(case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Warn that the fields are not judged."""
    case.warnings.append("spec: the fields of a CompositePodGroup are not judged")


def check(_case: RuleContext, _new: Document, _old: Document | None) -> list[FieldError]:
    """Return no errors: only the metadata is judged."""
    return []


def judge(_case: RuleContext, _new: Document, _old: Document | None) -> None:
    """Do nothing: no plugin is known to refuse one."""
