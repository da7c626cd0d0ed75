"""The markup of pictures is accessible, uses the page's colours, and escapes hostile names."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.render.cluster import node, pod, state

from podium.cli.render import page
from podium.cli.render.pictures.clustermap import cluster_map
from podium.cli.render.pictures.drawing import LETTERS, Anchor, Box, Drawing, Label, Spot, Style, svg
from podium.cli.render.pictures.sections import map_section
from podium.text import visible

STYLE = Path(page.__file__).with_name("page.css").read_text("utf-8")
LIGHT, DARK, PRINT = (
    dict(re.findall(r"--([\w-]+): ([^;]+);", part))
    for part in (
        STYLE.partition("@media")[0],
        STYLE.partition("scheme: dark)")[2].partition("* {")[0],
        STYLE.partition("@media print")[2],
    )
)
THEMES = {"light": LIGHT, "dark": LIGHT | DARK, "print": LIGHT | PRINT}


def colour(theme: dict[str, str], name: str) -> tuple[float, float, float]:
    value = theme[name]
    if value.startswith("var("):
        return colour(theme, value[6:-1])
    red, green, blue = (int(value[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def contrast(theme: dict[str, str], one: str, other: str) -> float:
    """Return the contrast of two variables by WCAG 2."""

    def light(name: str) -> float:
        parts = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour(theme, name))
        return sum(part * weight for part, weight in zip(parts, (0.2126, 0.7152, 0.0722), strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_letters_and_outlines_can_be_read(theme: str) -> None:
    """Text and outlines have WCAG's minimum contrast."""
    colours = THEMES[theme]
    for band in "abcde":
        assert contrast(colours, f"on-{band}", band) >= 4.5, band
    for ink, ground in (
        ("muted", "surface"),
        ("warning", "warning-soft"),
        ("error", "error-soft"),
        ("surface", "clear"),
    ):
        assert contrast(colours, ink, ground) >= 4.5, ink
    assert contrast(colours, "accent", "surface") >= 3


def test_each_style_has_a_colour_and_most_a_letter() -> None:
    """Only the style `free` is an empty box; bars of a timeline have their lane."""
    for style in Style:
        assert f".picture .{style}" in STYLE
    assert set(Style) - set(LETTERS) == {Style.FREE, Style.EVENT, Style.LINE}
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_a_picture_is_an_image_with_words_and_without_script() -> None:
    drawing = Drawing("Title", "Words", 20, [Box(Style.BAND_1, 0, 0, 15, 15, "A")])
    root = ET.fromstring(svg(drawing))
    assert root.get("role") == "img"
    assert [root.findtext("title"), root.findtext("desc"), root.findtext("text")] == ["Title", "Words", "A"]
    assert (root.get("width"), root.get("viewBox")) == ("320", "0 0 320 20")


def test_a_stretched_picture_has_places_in_per_cent() -> None:
    """The text of a picture keeps its size in any window."""
    labels = [Label("end", 100, 10, Anchor.END)]
    drawing = Drawing("T", "D", 20, [Box(Style.EVENT, 50, 0, 2.5, 15)], (), labels, stretched=True)
    root = ET.fromstring(svg(drawing))
    assert (root.get("width"), root.get("viewBox")) == ("100%", None)
    rect = root.find("rect")
    assert rect is not None
    assert (rect.get("x"), rect.get("width"), rect.get("height")) == ("50%", "2.5%", "15")


TAGS = {"svg", "title", "desc", "path", "rect", "text"}
texts = st.text(st.one_of(st.sampled_from("<>&\"'\x00\x1b\u202e]"), st.characters()), max_size=30)


@given(words=texts)
def test_no_text_gets_out_of_its_place(words: str) -> None:
    """The markup is well-formed with our tags only, and the text is the given one, with escapes."""
    drawing = Drawing(words, words, 9, [], [Spot(words, 0, 0, 1, 1)], [Label(words, 0, 0)])
    root = ET.fromstring(svg(drawing).encode("utf-8", "backslashreplace"))
    assert {each.tag for each in root.iter()} <= TAGS
    found = root.findtext("title") or ""
    assert found == visible(words).encode("utf-8", "backslashreplace").decode().replace("\r", "\n")


@given(words=texts)
def test_hostile_nodes_classes_and_resources_stay_text(words: str) -> None:
    name = f"<svg onload=alert(1)>{words}"
    label = {"example.com/rack": name}
    nodes = [node(f"{name}{at}", labels=label if at % 2 else {"example.com/rack": "b"}) for at in range(4)]
    section = map_section(cluster_map(state([*nodes, pod(name, f"{name}0", 5, gpu=3)])))
    root = ET.fromstring(section.encode("utf-8", "backslashreplace"))
    assert {each.tag for each in root.iter()} <= {
        *TAGS,
        "section",
        "h2",
        "h3",
        "p",
        "ul",
        "li",
        "span",
        "div",
    }
    assert not any(name.startswith("on") for each in root.iter() for name in each.attrib)
