"""Node selectors: the terms by which pods and volumes choose nodes (core/v1)."""

import msgspec


class NodeSelectorRequirement(msgspec.Struct, gc=False):
    """An expression on a node's labels, or on its fields."""

    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, gc=False):
    """Expressions that must all hold; a term without expressions selects nothing."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(msgspec.Struct, gc=False):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[NodeSelectorTerm] | None = None
