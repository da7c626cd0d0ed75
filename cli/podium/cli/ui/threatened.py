"""The page of `podium whatif --victim`: what would evict a running pod or group, and what protects it.

The page of a running object links here; the form is for users who have only a name.
"""

from collections.abc import Sequence
from typing import NamedTuple

from podium.answers.whatifreport import Basis
from podium.cli.render.html import folded, section
from podium.cli.render.threat import threat_sections, threat_verdict
from podium.cli.ui.page_parts import Here, PageContext, complaint, link, named_input, object_link, page
from podium.planner.threat import Threat

# Maximum number of running groups and pods in the form; docs/ui.md states the number.
OFFERED = 300
PATH = "/threats"
_QUESTION = """<h1>What can preempt it?</h1>
<p>Name a running group or pod. The answer is the lowest priority and the requests that preempt it, and its
protection.</p>"""
EMPTY = "No name: enter a running group or pod as namespace/name."


class ThreatAnswer(NamedTuple):
    """The result: the threat and its basis, or an error; neither without a name."""

    found: tuple[Threat, Basis] | None = None
    error: str = ""


def threatened(answer: ThreatAnswer, offered: Sequence[str], here: Here, around: PageContext) -> str:
    """Return the page; `offered` are the running pods and groups."""
    asked = _form(here.query.get("name", ""), answer.error, offered)
    if answer.found is None:
        return page("Threats", here, around, _QUESTION, [asked, _running(offered)])
    threat, basis = answer.found
    see = f"<p>See {object_link(threat.kind, threat.namespace, threat.name)}.</p>"
    sections = [*threat_sections(threat), section("again", "Ask again", asked)]
    return page("Threats", here, around, f"{threat_verdict(threat, basis)}\n{see}", sections)


def _running(names: Sequence[str]) -> str:
    links = [f"<li>{link(name, PATH, name=name)}</li>" for name in names]
    body = folded(links, lambda some: f'<ul class="names">{"".join(some)}</ul>', OFFERED)
    return section("offered", "Running groups and pods", body if names else "")


def _form(name: str, error: str, offered: Sequence[str]) -> str:
    field = named_input("Running group or pod", "name", name, offered[:OFFERED], wrong=bool(error))
    form = f'<form class="ask" method="get" action="{PATH}">\n{field}\n<button>Ask</button>\n</form>'
    return f"{complaint(error)}\n{form}"
