"""`podium migrate` on a terminal: what moves, what does not, which users block it and what to do about it."""

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from podium.api.groups import NATIVE_GROUP
from podium.cli.render.table import cut, first
from podium.cli.render.text import Layout
from podium.cli.render.words import visible
from podium.findings import group_of
from podium.ops.migrate import FIELD, HELD, LABEL, Item, State
from podium.wording import count, some

# Maximum number of items of one state in the table; docs/upgrade.md states it.
ITEMS = 20
USERS = 3

_HEADINGS = {
    State.MOVES: "Moves",
    State.COPIED: "Copied already, to be deleted",
    State.USED: "In use",
    State.STAYS: "Cannot move",
    State.LEAVING: "Being deleted",
}


def migrate_table(
    items: Sequence[Item], layout: Layout, *, target: str, source: str, folder: str | None
) -> str:
    """Return the items of a migration to a version, planned or carried out, in the layout's width.

    `source` names the input, `folder` is the place of the manifests, if they were written.
    """
    done = any(each.done for each in items)
    layout.paragraph(_headline(items, target, done=done), style="bold")
    layout.paragraph(f"From {visible(source)}.")
    for state, heading in _HEADINGS.items():
        _items(layout, heading, [each for each in items if each.state is state])
    _steps(layout, items, target, folder, done=done)
    return layout.text()


def _headline(items: Sequence[Item], target: str, *, done: bool) -> str:
    if not items:
        return f"Nothing is left to move to {target}."
    states = Counter(each.state for each in items)
    moving = states[State.MOVES] + states[State.COPIED]
    failed = sum(each.failed for each in items)
    parts = []
    if moving:
        verb = "moved" if done else "can move"
        parts.append(f"{count(moving - failed, 'object')} {verb} to {target}")
    parts += [f"{failed:,} did not"] if failed else []
    words = {State.USED: "in use", State.STAYS: "cannot move", State.LEAVING: "being deleted"}
    parts += [f"{states[state]:,} {word}" for state, word in words.items() if states[state]]
    return f"{', '.join(parts)}."


def _items(layout: Layout, heading: str, items: Sequence[Item]) -> None:
    if not items:
        return
    layout.heading(heading)
    rows = [
        (visible(str(each.object)), f"{each.pods:,}" if each.pods else "", visible(_why(layout, each)))
        for each in first(layout, items, ITEMS)
    ]
    layout.columns(("OBJECT", "LIVE PODS", ""), rows, right=(1,))
    cut(layout, len(items), ITEMS)


def _why(layout: Layout, item: Item) -> str:
    users = some(item.users, len(item.users) if layout.width is None else USERS)
    return "; ".join(part for part in (item.done, item.why, users) if part)


def _steps(layout: Layout, items: Sequence[Item], target: str, folder: str | None, *, done: bool) -> None:
    steps = []
    if not done and any(each.state in (State.MOVES, State.COPIED) for each in items):
        steps.append("carry this out: the same command with --apply")
    used = [each for each in items if each.state is State.USED and each.object.kind == "PodGroup"]
    if used:
        old, new = (LABEL, FIELD) if group_of(target) == NATIVE_GROUP else (FIELD, LABEL)
        manifests = f"{quote(folder)}/{HELD}" if folder else f"DIR/{HELD} (--output-dir DIR writes it)"
        owners = {user for each in used for user in each.users}
        if not all(each.copied for each in used):
            steps.append(f"make the new groups of what is in use: kubectl create -f {manifests}")
        steps += [
            f"name the group in {new}, not in {old}, in the pod templates of {some(owners)}",
            "restart them; a Job is deleted and made again",
            "run this again: what is not in use any more is deleted",
        ]
    if steps:
        layout.heading("What to do")
    for number, step in enumerate(steps, 1):
        layout.paragraph(f"{number:>2}. {visible(step)}", hang="    ")
