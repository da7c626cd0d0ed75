"""The type of a rule: a name, a severity, the kinds it needs, and the reason why it exists.

The module that defines a rule evaluates it. The table gathers the rules for the documentation, for --select
and --ignore, and for SARIF. A rule whose kinds could not be read does not run and is reported as not checked.
"""

import msgspec

from podium.api.findings import Finding, ObjectRef, Severity
from podium.api.reads import Kind


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule. `id` is kebab-case and never changes meaning; `source` is the origin of the rule."""

    id: str
    severity: Severity
    title: str
    why: str
    source: str
    needs: frozenset[Kind] = frozenset()

    def finding(self, ref: ObjectRef, field: str, message: str, fix: str) -> Finding:
        """Return this rule's finding on one object."""
        return Finding(
            rule=self.id, severity=self.severity, object=ref, field=field, message=message, fix=fix
        )
