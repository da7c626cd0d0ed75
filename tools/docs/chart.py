"""The table of the chart's values in its README: the comments and defaults of values.yaml."""

from collections.abc import Iterator

import yaml
from tools.helm.program import CHART

_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
# The process whose comments describe the same values of the others.
_DESCRIBED = "webhook."
_ALIKE = ("controller.", "scheduler.")


def table() -> str:
    """Return the values with a comment in Markdown.

    Raises ValueError for a value that no comment describes.
    """
    rows = {path: (_comment(line), node) for path, line, node in _nodes(yaml.compose(_TEXT), "")}
    text = "| Value | Default | Meaning |\n|---|---|---|\n"
    for path, (comment, node) in rows.items():
        section = any(other.startswith(f"{path}.") for other in rows)
        process = next(filter(path.startswith, _ALIKE), "")
        if comment:
            text += f"| `{path}` | {'' if section else f'`{_flow(node)}`'} | {comment} |\n"
        elif not section and (not process or not rows[path.replace(process, _DESCRIBED)][0]):
            raise ValueError(f"{path} of values.yaml has no comment above it")
    return text


def _nodes(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int, yaml.Node]]:
    """Yield the path, the line and the node of each value and each section.

    A mapping below a comment is one value, unless there are comments inside it.
    """
    assert isinstance(node, yaml.MappingNode)
    for key, value in node.value:
        path, line = prefix + key.value, key.start_mark.line
        yield path, line, value
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            inside = [*_nodes(value, f"{path}.")]
            if not _comment(line) or any(_comment(inner) for _, inner, _ in inside):
                yield from inside


def _comment(line: int) -> str:
    """Return the comment directly above a line."""
    lines = _TEXT.splitlines()
    words: list[str] = []
    while line and lines[line - 1].lstrip().startswith("# "):
        line -= 1
        words.insert(0, lines[line].lstrip().removeprefix("# "))
    return " ".join(words)


def _flow(node: yaml.Node) -> str:
    """Return a default in one line."""
    value = yaml.safe_load(yaml.serialize(node))
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return '""' if value == "" else text.removesuffix("\n").removesuffix("\n...")
