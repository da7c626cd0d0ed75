"""The parts of a page that hold pictures: a heading, a legend with numbers, and the drawings.

The legend has the total of each style, so it is also the text for readers who do not see the picture.
"""

from podium.api.podrequests import CPU
from podium.cli.render.html import FIRST, Fold, folded, section, text
from podium.cli.render.pictures import clustermap, planpicture
from podium.cli.render.pictures.clustermap import ClusterMap, free_words
from podium.cli.render.pictures.drawing import LegendEntry, Style, legend, panel_grid
from podium.cli.render.pictures.planpicture import PlanPicture
from podium.cli.render.pictures.use import amount_words, style_words
from podium.text import count


def map_section(made: ClusterMap | None) -> str:
    """Return the map of a cluster; an empty text for none."""
    if made is None:
        return ""
    total, resource = made.total, made.nodes[0].resource
    entries = [
        LegendEntry(style, f"{style_words(style, made.bands)}: {amount_words(resource, total[style])}")
        for style in Style
        if total[style]
    ]
    unshown = f"; {count(made.unshown, 'node')} without accelerators not shown" if made.unshown else ""
    domains = f", by {made.label}" if made.label else ""
    unit = "" if resource == CPU else f" ({made.resource})"
    words = f"{count(len(made.nodes), 'node')}, {free_words(made.nodes)}{unit}{domains}{unshown}."
    body = f"<p>{text(words)}</p>{legend(entries)}{panel_grid(clustermap.panels(made))}"
    return section("map", "Cluster map", body)


def plan_section(picture: PlanPicture | None, first: int = FIRST, fold: Fold = "never") -> str:
    """Return the nodes of a plan before and after, the `first` rows open; an empty text for none."""
    if picture is None:
        return ""
    shown = picture.changes[: planpicture.ROWS]
    styles = {style for change in shown for style, _ in (*change.before, *change.after)}
    entries = [LegendEntry(style, style_words(style, picture.bands)) for style in Style if style in styles]
    resources = sorted({change.resource for change in picture.changes})
    nodes = count(sum(len(change.nodes) for change in picture.changes), "node")
    body = f"<p>{text(', '.join(resources))} of {nodes}.</p>{legend(entries)}"
    drawn = folded(
        picture.changes,
        lambda some: panel_grid(list(planpicture.panels(picture._replace(changes=some)))),
        planpicture.ROWS,
        first,
    )
    return section("picture", "Before and after", f"{body}{drawn}", fold)
