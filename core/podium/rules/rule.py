"""What a rule is: a name, a severity, what it needs to see and why it exists.

A rule's verdicts are made by the module that defines it; the table gathers the rules for the documentation,
for --select and --ignore, and for SARIF. A rule whose kinds could not be read is not run and is named as
not checked.
"""

import msgspec

from podium.api.reads import Kind
from podium.findings import Finding, ObjectRef, Severity


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `id` is kebab-case and never changes meaning; `source` is where the rule comes from."""

    id: str
    severity: Severity
    title: str
    why: str
    source: str
    needs: frozenset[Kind] = frozenset()

    def finding(self, ref: ObjectRef, field: str, message: str, fix: str) -> Finding:
        """Make this rule's verdict on one object."""
        return Finding(
            rule=self.id, severity=self.severity, object=ref, field=field, message=message, fix=fix
        )
