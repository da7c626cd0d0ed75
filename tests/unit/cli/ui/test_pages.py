"""Each page as a function of values: its contents and limits, with all text escaped."""

import re
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ui.clusters import AROUND, NOW, Objects, mixed, page_data
from tests.support.ui.running import ROOT
from tests.support.why import group, node, party, plan, pod, record

from podium.answers.accounts.model import RunState
from podium.api.saving import SAVES_ON_NOTICE
from podium.cli.ui import threatened
from podium.cli.ui.census import Census, CensusRow
from podium.cli.ui.diverging import diverging
from podium.cli.ui.history import UNITS, history
from podium.cli.ui.object_page import object_page
from podium.cli.ui.overview import chosen, overview
from podium.cli.ui.page_data import PageData
from podium.cli.ui.page_parts import ROWS, Here
from podium.cli.ui.planning import Form, PlanAnswer, entered, planning
from podium.errors import PodiumError
from podium.text import visible

VOID = frozenset(("meta", "link", "input", "br"))
# The allowed tags of a page; hostile text could only add others.
TAGS = VOID.union(
    *(
        ("html", "head", "title", "style", "body", "nav", "header", "main", "section", "footer", "div"),
        ("h1", "h2", "h3", "p", "span", "b", "a", "code", "ins", "del", "details", "summary"),
        ("svg", "desc", "path", "rect", "text"),
        ("dl", "dt", "dd", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td"),
        (
            "form",
            "label",
            "select",
            "option",
            "button",
            "datalist",
            "textarea",
            "fieldset",
            "legend",
            "output",
        ),
    )
)


class Reader(HTMLParser):
    """Parses a page strictly: only our tags, closed in order, and our own links."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style"
            if name == "href" and value != "data:,":
                assert re.fullmatch(r"(/(?!/)[!-~]*|#[!-~]+)", value or ""), value
                self.links.append(value or "")
            assert name != "src"

    def handle_startendtag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - the signature of HTMLParser
        assert tag in TAGS, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def overview_of(made: PageData, **query: str) -> str:
    return overview(made.census, made.map, Here("/", query), AROUND, made.reason, None)


def history_of(made: PageData, **query: str) -> str:
    return history(made.plans, made.summary, made.cluster.known, Here("/history", query), AROUND)


def object_page_of(made: PageData, kind: str, name: tuple[str, str], **query: str) -> str:
    told = made.explain(kind, name, NOW)
    assert told.account is not None
    report = made.report(told.planned) if told.planned is not None else None
    here = Here(f"/{kind}", {"name": "/".join(name), **query})
    return object_page(told.account, made.related(kind, name), report, None, here, AROUND)


def plan_of(made: PageData, form: Form) -> str:
    return planning(form, made.plan(form, NOW), made.named(RunState.WAITING), Here("/whatif", {}), AROUND)


def threats_of(made: PageData, name: str, kind: str = "") -> str:
    answer = threatened.ThreatAnswer(made.threat(kind, name, NOW))
    here = Here(threatened.PATH, {"name": name, "kind": kind})
    return threatened.threatened(answer, made.named(RunState.RUNNING), here, AROUND)


def every(made: PageData) -> Iterator[str]:
    """Yield every page of a cluster."""
    yield overview_of(made)
    yield overview_of(made, what="pods")
    yield diverging(made.divergences, Here("/divergences", {}), AROUND)
    yield history_of(made)
    for row in made.census.rows:
        yield object_page_of(made, "group" if row.is_group else "pod", (row.namespace, row.name))
        if row.state == "Waiting" and row.exists:
            yield plan_of(made, Form(target=f"{row.namespace}/{row.name}"))
        if row.state == "Running":
            yield threats_of(made, f"{row.namespace}/{row.name}")


@pytest.fixture
def made(tmp_path: Path) -> PageData:
    return page_data(mixed(), tmp_path)


def test_every_page_is_well_formed_and_links_to_what_is_there(made: PageData) -> None:
    """The target of each link is a known pod or group."""
    seen = set()
    for page in every(made):
        for target in Reader(page).links:
            parts = urlsplit(target)
            if parts.path in ("/pod", "/group"):
                namespace, _, name = parse_qs(parts.query)["name"][0].partition("/")
                seen.add((parts.path[1:], (namespace, name)))
    assert len(seen) >= len(made.census.rows)
    for kind, whom in seen:
        assert object_page_of(made, kind, whom)


hostile = st.text(
    st.one_of(st.sampled_from("<>&\"'/`=;:# \n\t\x00\x1b\u202e\u2028%?"), st.characters(codec="utf-8")),
    max_size=12,
).filter(lambda text: "/" not in text)


@settings(max_examples=12)
@given(end=hostile)
def test_nothing_of_an_object_gets_out_of_its_text(end: str) -> None:
    """Names, messages and classes may hold any text; pages keep their tags and links."""
    evil = f"\"'><script>alert(1)</script>{end}".replace("/", "|")
    with tempfile.TemporaryDirectory() as folder:
        made = page_data(mixed(lambda name: f"{name}{evil}"), Path(folder))
        for page in every(made):
            assert "<script" not in page
            Reader(page)
        text = Reader(overview_of(made)).text
        assert re.sub(r"\s+", " ", visible(f"train{evil}")) in text


@settings(max_examples=50)
@given(fields=st.dictionaries(st.sampled_from(Form._fields), st.text(max_size=30)))
def test_entered_values_stay_in_the_form(fields: dict[str, str]) -> None:
    """The text stays unchanged, inside the form only."""
    form = entered(fields)
    page = planning(form, PlanAnswer(error=f"no {form.target}"), ["a/<b>"], Here("/whatif", {}), AROUND)
    reader = Reader(page)
    named = Here(threatened.PATH, {"name": form.target})
    assert Reader(
        threatened.threatened(threatened.ThreatAnswer(error=form.target), ["a/<b>"], named, AROUND)
    ).text
    box = page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    assert "<" not in box
    assert reader.text


def rows_of(census: Census, **query: str) -> list[str]:
    return [row.name for row in chosen(census, query)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["train", "again", "sweep", "nobody"]),
        ({"state": "waiting"}, ["train", "again", "nobody"]),
        ({"state": "preempted"}, ["again"]),
        ({"state": "diverging"}, ["sweep"]),
        ({"state": "running"}, ["sweep"]),
        ({"what": "pods"}, ["lone", "victim", "done"]),
        ({"what": "pods", "state": "preempted"}, ["victim"]),
        ({"what": "pods", "state": "finished"}, ["done"]),
        ({"namespace": "b"}, []),
        ({"search": "TRA"}, ["train"]),
        ({"search": "high a/tr"}, ["train"]),
        ({"search": "a/ again high"}, []),
        ({"search": " ", "state": "preempted"}, ["again"]),
        ({"state": "nonsense", "what": "nonsense"}, ["train", "again", "sweep", "nobody"]),
    ],
)
def test_the_filter_chooses(query: dict[str, str], names: list[str], made: PageData) -> None:
    assert rows_of(made.census, **query) == names


def test_without_groups_pods_are_listed(tmp_path: Path) -> None:
    assert rows_of(page_data([pod("x"), pod("y", node="n1")], tmp_path).census) == ["x", "y"]


def test_the_overview_says_why_in_a_word(made: PageData) -> None:
    text = Reader(overview_of(made)).text
    assert "3 groups and 1 pod in no group wait." in text
    for words in (
        "a/train waiting does not fit podium-scheduler (Unschedulable): 0/1 nodes are available",
        "a/again waiting preempted not tried",
        "a/sweep running diverging: 1 100",
        "a/nobody waiting missing its group is missing",
        "1000 high 1 waiting",
    ):
        assert words in text, words


def test_the_first_table_is_cut_with_links_to_all(tmp_path: Path) -> None:
    """Groups come before pods and in natural order; the rest is one click away."""
    objects = [pod("lone"), *(group(f"g{number}", least=1) for number in range(30))]
    waiting = [pod(f"x{number}", group=f"g{number}") for number in range(30)]
    reader = Reader(overview_of(page_data([*objects, *waiting], tmp_path)))
    assert "First 20 of 31." in reader.text
    assert [target for target in reader.links if "/group?" in target] == [
        f"/group?name=a%2Fg{number}" for number in range(20)
    ]
    assert "/?what=pods&state=waiting" in reader.links


def test_a_row_says_since_when_it_waits(made: PageData) -> None:
    page = overview(made.census, made.map, Here("/", {}), AROUND._replace(live=True), made.reason, NOW)
    (since,) = re.findall(r'<td class="time" data-label="Since">([^<]+)</td>', page)[:1]
    assert re.fullmatch(r"2026-\d\d-\d\dT[\d:]+Z, \d+ \w+ ago", since)


REASONS: dict[str, tuple[Objects, str]] = {
    "gated": ([group("ring", least=1), pod("x", group="ring", schedulingGates=[{"name": "g"}])], "gated"),
    "too few": ([group("ring", least=4), pod("x", group="ring")], "too few pods"),
    "several schedulers": (
        [group("ring"), pod("x", group="ring"), pod("y", group="ring", scheduler="other")],
        "several schedulers",
    ),
    "a claim that is there": (
        [
            group("ring", least=1),
            pod("x", group="ring", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "c",
                    "namespace": "a",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": "pv"},
            },
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}},
        ],
        "not tried",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_is_what_why_says(name: str, tmp_path: Path) -> None:
    """A row explains one object, with the texts of the whole cluster."""
    objects, word = REASONS[name]
    made = page_data([node(), *objects], tmp_path)
    (row,) = made.census.rows
    told = made.explain("group", ("a", "ring"), NOW).account
    assert told is not None
    wait = made.reason(row)
    assert wait is not None
    assert (wait.cause, wait.message) == (told.waiting[0].cause, told.waiting[0].message)
    assert word in Reader(overview_of(made)).text


def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    """Pages have a hundred rows, with links to the previous and next; only visible rows are explained."""
    made = page_data([group(f"g{number:03}", least=1) for number in range(2 * ROWS + 5)], tmp_path)
    asked: list[CensusRow] = []

    def page(number: str) -> str:
        return overview(
            made.census, made.map, Here("/", {"page": number, "state": "waiting"}), AROUND, asked.append, None
        )

    first, last = Reader(page("")), Reader(page("3"))
    assert len(asked) == ROWS + 5
    assert "1 to 100 of 205" in first.text
    assert "201 to 205 of 205" in last.text
    assert "/?page=2&state=waiting" in first.links
    assert "a/g000" in first.text
    assert "a/g204" in last.text
    assert "201 to 205 of 205" in Reader(page("77")).text
    assert "1 to 100 of 205" in Reader(page("-1")).text


def test_members_come_in_pages_too(tmp_path: Path) -> None:
    objects = [group("ring"), *(pod(f"x{number:03}", group="ring", node="n1") for number in range(ROWS + 1))]
    text = Reader(object_page_of(page_data(objects, tmp_path), "group", ("a", "ring"), page="2")).text
    assert "a/x100" in text
    assert "a/x099" not in text


def test_a_waiting_group_shows_its_plan(made: PageData) -> None:
    """The page lists the victims, from the page of `podium whatif`; a running group has no plan."""
    text = Reader(object_page_of(made, "group", ("a", "train"))).text
    assert "PodGroup a/train waits" in text
    assert "What would make room" in text
    assert "PodGroup a/train fits" in text
    assert "Members: 2 pods" in text
    assert "Preemptions for it" in text
    running = Reader(object_page_of(made, "group", ("a", "sweep"))).text
    assert "What would make room" not in running
    assert "do not have priority 100" in running or "does not have priority 100" in running


def test_a_running_pod_links_to_its_threats(made: PageData) -> None:
    """The page equals `podium whatif --victim` with its own links; a pending pod has no threat."""
    target = "/threats?kind=group&name=a%2Fsweep"
    assert target in Reader(object_page_of(made, "group", ("a", "sweep"))).links
    assert not any("threats?" in each for each in Reader(object_page_of(made, "group", ("a", "train"))).links)
    reader = Reader(threats_of(made, "a/sweep", "group"))
    # A group whose pods have other integers is protected at its own.
    assert "can be preempted by priority 101 or higher, that is class high (1000) and above" in reader.text
    assert "Classes that may preempt it high 1000" in reader.text.replace("Class Priority ", "")
    assert "/group?name=a%2Fsweep" in reader.links


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("", "sweep", "Running group or pod: 'sweep' is not of the form NAMESPACE/NAME"),
        ("", "a/ghost", "pod or PodGroup a/ghost not found"),
        ("pod", "a/sweep", "pod a/sweep not found"),
        ("", "a/lone", "pod a/lone runs on no node that is known, so nothing can preempt it"),
    ],
)
def test_a_threat_to_a_pod_that_does_not_run_is_an_error(
    kind: str, name: str, says: str, made: PageData
) -> None:
    with pytest.raises(PodiumError, match=re.escape(says)):
        made.threat(kind, name, NOW)


def test_a_group_goes_before_a_pod_of_its_name(tmp_path: Path) -> None:
    """The group is shown if the request has no kind; a link has one."""
    objects = [node(), group("x", least=1), pod("x-0", group="x", node="n1"), pod("x", node="n1")]
    made = page_data(objects, tmp_path)
    found = [made.threat(kind, "a/x", NOW)[0].kind for kind in ("", "group", "pod")]
    assert found == ["PodGroup", "PodGroup", "Pod"]


def test_a_pod_leads_to_its_group(made: PageData) -> None:
    assert "/group?name=a%2Ftrain" in Reader(object_page_of(made, "pod", ("a", "train-0"))).links


def test_a_group_names_its_owners_and_accelerators(tmp_path: Path) -> None:
    """The owner is the topmost one that was read; the accelerators of waiting pods are requested."""
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": "ring", "uid": "u", "controller": True}
    gpus: Any = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}]}
    objects = [
        node(),
        group("ring", least=1),
        pod("x", group="ring", node="n1", metadata={"ownerReferences": [controller]}, **gpus),
        pod("y", group="ring", metadata={"ownerReferences": [controller]}, **gpus),
        pod("z", group="ring", **gpus),
    ]
    made = page_data(objects, tmp_path)
    text = Reader(object_page_of(made, "group", ("a", "ring"))).text
    assert "Owner: Job a/ring." in text
    assert "Accelerators held: 2 nvidia.com/gpu. Accelerators requested: 4 nvidia.com/gpu." in text.replace(
        "  ", " "
    )
    assert "Owner: Job a/ring." in Reader(object_page_of(made, "pod", ("a", "x"))).text
    assert "Owner" not in Reader(object_page_of(made, "pod", ("a", "z"))).text


def test_a_plan_without_victims_counts_no_zeros(made: PageData) -> None:
    report = made.plan(Form(target="a/again"), NOW).report
    assert report is not None
    fitting = report._replace(plan=msgspec.structs.replace(report.plan, harm=None, victims=()))
    page = planning(Form(), PlanAnswer(fitting), [], Here("/whatif", {}), AROUND)
    assert page.count('<div class="tile') <= 1


def test_the_history_is_newest_first_and_filtered(made: PageData) -> None:
    text = Reader(history_of(made)).text
    assert text.index("2026-11-21T08:30:00Z") < text.index("2026-11-21T08:10:00Z")
    assert "2 plans of preemption are recorded." in text
    assert "b/their" not in Reader(history_of(made, mode="Enforced")).text
    assert "because" in text


def test_the_history_tells_no_name_of_a_namespace_that_may_not_be_read(made: PageData) -> None:
    """It has kind and UID, without messages, since names may be in them."""
    known = {"a"}.__contains__
    page = history(made.plans, made.summary, known, Here("/history", {}), AROUND)
    assert "their" not in page.replace("uid-of-their", "").replace("theirs", "")
    assert "uid-of-their" in page
    none = history(made.plans, made.summary, set[str]().__contains__, Here("/history", {}), AROUND)
    for secret in ("a/train", "a/victim", "because"):
        assert secret not in none


def test_a_workload_that_is_not_trusted_is_named_to_its_readers(tmp_path: Path) -> None:
    """The history names it, and so does the page of its pod."""
    units = party("Pod", "a", "x", saving="Failed"), party("Pod", "b", "y", saving="Failed")
    plans = [plan(party("Pod", "a", f"high-{at}"), *units, askedPods=2) for at in range(2)]
    declaring = pod("x", node="n1", metadata={"annotations": {SAVES_ON_NOTICE: "30s"}})
    made = page_data([declaring, node(), record(*plans)], tmp_path)
    text = Reader(history_of(made)).text
    assert "Not trusted to save their work as declared: Pod a/x, Pod b/y." in text
    assert "2 pods asked to save, 0 did" in text
    only = history(made.plans, made.summary, {"a"}.__contains__, Here("/history", {}), AROUND)
    assert "Not trusted to save their work as declared: Pod a/x." in Reader(only).text
    assert "failed to 2 times in a row" in Reader(object_page_of(made, "pod", ("a", "x"))).text


def test_long_plans_are_cut(tmp_path: Path) -> None:
    units = [party("Pod", "a", f"u{number}") for number in range(UNITS + 3)]
    text = Reader(
        history_of(page_data([pod("x"), record(plan(party("Pod", "a", "x"), *units))], tmp_path))
    ).text
    assert "3 more" in text


def test_divergences_are_the_audits(made: PageData) -> None:
    text = Reader(diverging(made.divergences, Here("/divergences", {}), AROUND)).text
    assert "1 group has pods of another priority." in text
    assert "1 of 2 pods does not have priority 100: 0 (sweep-1)." in text


MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: new, namespace: a}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      priorityClassName: high
      containers: [{name: main, image: example.com/x, resources: {requests: {cpu: "2"}}}]
"""


SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: a}\n"


def test_a_manifest_is_planned_for_and_the_cluster_stays(made: PageData) -> None:
    """The manifest is planned beside the cluster as read, which stays unchanged."""
    before = len(made.state.pods)
    one_pod = MANIFEST.replace("parallelism: 3", "parallelism: 1").replace("completions: 3", "completions: 1")
    answer = made.plan(Form(manifest=one_pod), NOW)
    assert answer.report is not None
    assert answer.report.plan.outcome == "FitsAfterPreemption"
    assert [unit.name for unit in answer.report.plan.victims]
    assert len(made.state.pods) == before
    again = made.plan(Form(manifest=one_pod), NOW).report
    assert again is not None
    assert again._replace(drawn=None) == answer.report._replace(drawn=None)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (Form(target="a/ghost"), "PodGroup a/ghost not found"),
        (Form(target="ghost"), "Pending group or pod: 'ghost' is not of the form NAMESPACE/NAME"),
        (Form(target="a/done"), "it has run to its end"),
        (Form(manifest="{"), "the manifest"),
        (Form(manifest=SERVICE), "Objects to add: none is or creates a pending pod or group"),
        (Form(manifest="kind: Pod"), "the manifest"),
        (Form(manifest=MANIFEST.replace("high", "highest")), "no PriorityClass with name highest was found"),
        (Form(target="a/lone", now="yesterday"), "is not a time"),
    ],
)
def test_an_impossible_plan_is_reported(form: Form, says: str, made: PageData) -> None:
    with pytest.raises(PodiumError, match=re.escape(says)):
        made.plan(form, NOW)


def test_the_options_count(made: PageData) -> None:
    """The semantics and the choice of victims apply as on the command line."""
    report = made.plan(Form(target="a/train", semantics="pods", evict_only="other"), NOW).report
    assert report is not None
    assert (report.basis.semantics, report.plan.victims) == ("pods", ())


def test_a_part_of_a_cluster_has_no_plan(tmp_path: Path) -> None:
    """The page names the missing part, and the other pages work."""
    made = page_data([pod("x")], tmp_path)
    with pytest.raises(PodiumError, match="no nodes"):
        made.plan(Form(target="a/x"), NOW)
    assert "plan not made: the input has no nodes" in Reader(object_page_of(made, "pod", ("a", "x"))).text


def test_the_documentation_names_the_link_that_reads_again(made: PageData) -> None:
    page = (ROOT / "docs" / "ui.md").read_text("utf-8")
    assert ">reload</a>" in overview_of(made)
    assert "`reload` reads them again" in page
