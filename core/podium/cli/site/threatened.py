"""The page of `podium whatif --victim`: what would evict a running pod or group, and what protects it.

The page of a running object links here; the form is for users who have only a name.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from podium.cli.render.html import section, text
from podium.cli.render.threat import threat_sections, threat_verdict
from podium.cli.render.whatif_words import Basis
from podium.cli.site.frame import Here, Surroundings, object_link, page
from podium.schedulerplugin.preemption.threat import Threat

# Maximum number of running groups and pods in the form; docs/ui.md states the number.
OFFERED = 300
PATH = "/threats"


class Answer(NamedTuple):
    """The result: the threat and its basis, or an error; neither without a name."""

    found: tuple[Threat, Basis] | None = None
    error: str = ""


def threatened(answer: Answer, offered: Sequence[str], here: Here, around: Surroundings) -> str:
    """Return the page; `offered` are the running pods and groups."""
    asked = _form(here.query.get("name", ""), answer.error, offered)
    if answer.found is None:
        return page("Threats", here, around, "<h1>What would evict it?</h1>", [asked])
    threat, basis = answer.found
    see = f"<p>See {object_link(threat.kind, threat.namespace, threat.name)}.</p>"
    sections = [*threat_sections(threat), section("again", "Ask again", asked)]
    return page("Threats", here, around, f"{threat_verdict(threat, basis)}\n{see}", sections)


def _form(name: str, error: str, offered: Sequence[str]) -> str:
    complaint = f'<p class="complaint" id="error" role="alert">{text(error)}</p>' if error else ""
    wrong = ' aria-describedby="error"' if error else ""
    field = (
        '<input name="name" list="running" placeholder="namespace/name" autocomplete="off" '
        f'value="{escape(name)}"{wrong}>'
    )
    names = "".join(f'<option value="{text(each)}"></option>' for each in offered[:OFFERED])
    return "\n".join(
        [
            complaint,
            f'<form class="ask" method="get" action="{PATH}">',
            f"<label>Running group or pod {field}</label>",
            f'<datalist id="running">{names}</datalist>',
            "<button>Ask</button>",
            "</form>",
        ]
    )
