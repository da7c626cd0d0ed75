"""`podium migrate` on a terminal: what moves, what does not, which users block it and what to do about it."""

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from podium.api.findings import group_of
from podium.api.groups import NATIVE_GROUP
from podium.cli.render.text import Layout
from podium.ops.migrate import FIELD, HELD, LABEL, Item, MigrationState
from podium.text import count, some, visible

# Maximum number of items of one state in the table; docs/upgrade.md states it.
ITEMS = 20
USERS = 3

_HEADINGS = {
    MigrationState.MOVES: "Moves",
    MigrationState.COPIED: "Already copied, to be deleted",
    MigrationState.USED: "In use",
    MigrationState.STAYS: "Cannot move",
    MigrationState.LEAVING: "Being deleted",
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
        return f"No object is left to move to {target}."
    states = Counter(each.state for each in items)
    moving = states[MigrationState.MOVES] + states[MigrationState.COPIED]
    failed = sum(each.failed for each in items)
    parts = []
    if moving:
        verb = "moved" if done else "can move"
        parts.append(f"{count(moving - failed, 'object')} {verb} to {target}")
    parts += [f"{failed:,} did not"] if failed else []
    words = {
        MigrationState.USED: "in use",
        MigrationState.STAYS: "cannot move",
        MigrationState.LEAVING: "being deleted",
    }
    parts += [f"{states[state]:,} {word}" for state, word in words.items() if states[state]]
    return f"{', '.join(parts)}."


def _items(layout: Layout, heading: str, items: Sequence[Item]) -> None:
    layout.listing(
        heading,
        ("OBJECT", "LIVE PODS", ""),
        items,
        lambda each: (str(each.object), f"{each.pods:,}" if each.pods else "", _explanation(layout, each)),
        limit=ITEMS,
        right=(1,),
    )


def _explanation(layout: Layout, item: Item) -> str:
    users = some(item.users, len(item.users) if layout.width is None else USERS)
    return "; ".join(part for part in (item.done, item.why, users) if part)


def _steps(layout: Layout, items: Sequence[Item], target: str, folder: str | None, *, done: bool) -> None:
    steps = []
    if not done and any(each.state in (MigrationState.MOVES, MigrationState.COPIED) for each in items):
        steps.append("run the same command with --apply")
    used = [each for each in items if each.state is MigrationState.USED and each.object.kind == "PodGroup"]
    if used:
        old, new = (LABEL, FIELD) if group_of(target) == NATIVE_GROUP else (FIELD, LABEL)
        manifests = f"{quote(folder)}/{HELD}" if folder else f"DIR/{HELD} (--output-dir DIR writes it)"
        owners = {user for each in used for user in each.users}
        if not all(each.copied for each in used):
            steps.append(f"create the new groups of the objects in use: kubectl create -f {manifests}")
        steps += [
            f"name the group in {new}, not in {old}, in the pod templates of {some(owners)}",
            "restart them; delete and recreate a Job",
            "run this again: it deletes the objects that are no longer in use",
        ]
    if steps:
        layout.heading("What to do")
    for number, step in enumerate(steps, 1):
        layout.paragraph(f"{number:>2}. {visible(step)}", hang="    ")
