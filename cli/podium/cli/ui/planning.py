"""The page of `podium whatif`: for a pod or group that waits, or for a manifest that is not applied yet.

The form keeps its input, and shows errors beside it. Times, semantics and settings have the command's
defaults.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import NamedTuple

from podium.answers.whatifreport import WhatIf
from podium.cli.render.html import section, text
from podium.cli.render.whatif_page import plan_sections, verdict
from podium.cli.render.whatif_words import SEMANTICS
from podium.cli.ui.page_parts import Here, PageContext, complaint, named_input, page, select, unit_link
from podium.errors import PodiumError, QuestionError
from podium.planner.scores import Strategy
from podium.planner.semantics import Semantics
from podium.planner.settings import Budgets, DivergencePolicy, Settings

# Maximum length of a manifest in bytes.
MANIFEST = 1 << 20
# Maximum number of pending groups and pods in the form; docs/ui.md states the number.
OFFERED = 300
# The path to which its form is sent.
ACTION = "/whatif/plan"


_QUESTION = """<h1>What would be preempted?</h1>
<p>Name a group or pod that waits, or paste objects to add. The plan shows their nodes, the pods that they
preempt, and the reasons.</p>"""
# The error of a field of a question, in the labels of the forms.
_ERRORS = {
    "target": "Pending group or pod: {}",
    "added": "Objects to add: {}, or name a pending group or pod",
    "now": "Time of the plan: {}",
    "victim": "Running group or pod: {}",
    "name": "name: {}",
}
EMPTY = "Nothing to plan for: name a pending group or pod, or paste objects to add."


class Form(NamedTuple):
    """The input of the form: the target (`namespace/name`), further objects, and the options, or nothing."""

    target: str = ""
    manifest: str = ""
    now: str = ""
    semantics: str = ""
    budgets: str = ""
    divergence: str = ""
    strategy: str = ""
    evict_only: str = ""

    @property
    def empty(self) -> bool:
        """Return whether the form has no query."""
        return not (self.target or self.manifest)

    @property
    def chooses(self) -> bool:
        """Return whether settings were chosen."""
        return bool(self.budgets or self.divergence or self.strategy or self.evict_only)

    def settings(self, base: Settings) -> Settings:
        """Return `base` with the chosen settings."""
        return base._replace(
            budgets=Budgets(self.budgets) if self.budgets else base.budgets,
            divergence=DivergencePolicy(self.divergence) if self.divergence else base.divergence,
            strategy=Strategy(self.strategy) if self.strategy else base.strategy,
            evict_only=self.evict_only or base.evict_only,
        )


class PlanAnswer(NamedTuple):
    """The result: a plan and notes on the added objects, or an error."""

    report: WhatIf | None = None
    notes: Sequence[str] = ()
    error: str = ""


@contextmanager
def form_errors() -> Iterator[None]:
    """Convert a QuestionError of the block into a PodiumError with the label of its field."""
    try:
        yield
    except QuestionError as error:
        raise PodiumError(error.worded(_ERRORS)) from None


def entered(fields: Mapping[str, str]) -> Form:
    """Return the input of the form."""
    given = {name: fields.get(name, "").strip() for name in Form._fields}
    # A browser sends every line break as two characters.
    return Form(**given)._replace(manifest=fields.get("manifest", "").replace("\r\n", "\n"))


def validate_form(form: Form) -> None:
    """Raise PodiumError for a value that the form does not offer, or does not accept."""
    for label, given, words in (
        ("Preemption rules", form.semantics, tuple(Semantics)),
        ("Budgets", form.budgets, tuple(Budgets)),
        ("Divergent groups", form.divergence, tuple(DivergencePolicy)),
        ("Placing", form.strategy, tuple(Strategy)),
    ):
        if given and given not in words:
            raise PodiumError(f"{label}: {given!r} does not exist. Choose one of {', '.join(words)}")
    if len(form.manifest.encode(errors="replace")) > MANIFEST:
        raise PodiumError(f"the manifest is larger than {MANIFEST >> 20} MiB. Use podium whatif --add FILE")


def planning(form: Form, answer: PlanAnswer, offered: Sequence[str], here: Here, around: PageContext) -> str:
    """Return the page; `offered` are the waiting pods and groups."""
    report = answer.report
    header = _QUESTION if report is None else verdict(report, "h1")
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in answer.notes)
    asked = _form(form, answer.error, offered)
    if report is None:
        return page("What if", here, around, header, [asked, notes])
    sections = [
        notes,
        *plan_sections(report, named=unit_link),
        section("again", "Plan again", asked, "always"),
    ]
    # The plan names them itself.
    around = around._replace(unknown=())
    return page("What if", here, around, header, sections)


def _form(form: Form, error: str, offered: Sequence[str]) -> str:
    wrong = ' aria-describedby="error"' if error else ""
    rules = [("", "of the cluster"), *((str(rule), f"{rule}: {SEMANTICS[rule]}") for rule in Semantics)]
    # A browser drops the first line break, so one more is added.
    manifest = "\n" + escape(form.manifest)
    box = f'<textarea name="manifest" rows="10" spellcheck="false"{wrong}>{manifest}</textarea>'
    return "\n".join(
        [
            f'<form class="ask tall" method="post" action="{ACTION}">',
            complaint(error),
            named_input("Pending group or pod", "target", form.target, offered[:OFFERED], wrong=bool(error)),
            f"<label>Objects to add: pods, groups, or their workloads (YAML or JSON) {box}</label>",
            "<fieldset><legend>Options</legend>",
            select("semantics", "Preemption rules", rules, form.semantics),
            _choice("budgets", "Budgets", tuple(Budgets), form.budgets),
            _choice("divergence", "Divergent groups", tuple(DivergencePolicy), form.divergence),
            _choice("strategy", "Placing", tuple(Strategy), form.strategy),
            _line("evict_only", "Victims of this scheduler only", form.evict_only, "the scheduler's own"),
            _line("now", "Time of the plan", form.now, "2026-01-31T12:00:00Z"),
            "</fieldset>",
            "<button>Plan</button>",
            "</form>",
        ]
    )


def _choice(name: str, label: str, words: Sequence[str], chosen: str) -> str:
    return select(name, label, [("", "the scheduler's own"), *((word, word) for word in words)], chosen)


def _line(name: str, label: str, value: str, hint: str) -> str:
    return f'<label>{label} <input name="{name}" placeholder="{hint}" value="{escape(value)}"></label>'
