"""The tables of docs/limits.md: bounds from the code, and figures from bench/RESULTS.md.

A figure is copied by its section and name, so a page cannot keep an outdated one. A bound is read from the
module that enforces it.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from tools.docs.sources import ROOT
from tools.manifests import footprint

from kubecel import effort, process, statictypes
from kubecel.nodes import MAX_LEVELS
from kubecel.results import MAX_RESULTS
from kubecel.selector import KEPT_BYTES
from podium import jsontext
from podium.answers.expansion.createdclaims import MOST_CLAIMS
from podium.answers.expansion.createdpods import MOST_PODS
from podium.api import records
from podium.api.convert import MAX_PODIUM_NAME
from podium.api.devices import MAX_CONSUMERS
from podium.api.podrequests import MOST_NAMES
from podium.api.priority import HIGHEST_USER_PRIORITY
from podium.audit.devices import MAX_COMPARED, MAX_EFFORT
from podium.documents import split, textfile, yamldoc
from podium.groups.autogroups import MOST_GANGS
from podium.groups.trees import MAX_GROUPS, MAX_TEMPLATES
from podium.kube import cache
from podium.kube.connection import LONGEST_ANSWER, LONGEST_LINE
from podium.planner import arrays, shapes
from podium.planner.filters import nodes
from podium.planner.plugins.devices import filter as devices
from podium.planner.plugins.devices import shortage
from podium.planner.preemption import budgets, defragment, inflight
from podium.rules.conditions import MAX_MESSAGE
from podium.rules.groupspec import MAX_CLAIMS
from podium.runtime.messages import Limits
from podium.schedulerplugin.history import recordring
from podium.webhooks import conversion, handlers, review


class Bound(NamedTuple):
    """A limit: the thing limited, its value, and the effect beyond it."""

    of: str
    at: str
    beyond: str


def _count(number: int) -> str:
    return f"{number:,}"


def _bytes(number: int) -> str:
    mebibytes, rest = divmod(number, 1 << 20)
    return f"{mebibytes} MiB" if not rest else f"{number >> 10} KiB"


_LEFT_OUT = "other nodes count as not examined"
_ERROR = "an error that names the place; exit code 1"
_SHED = "429, and the API server asks again"
_DENIED = "denied, 429: the client tries again"
# Those of kubecel, which its own README has too.
SELECTOR_BOUNDS = (
    Bound(
        "effort of a device selector on a device; its longest text and list; all that it makes",
        f"{_count(effort.MAX_EFFORT)} units; {_count(effort.MAX_TEXT)}; {_bytes(effort.MAX_BYTES)}",
        "the selector fails: the cost limit is exceeded",
    ),
    Bound(
        "effort of compiling a device selector; its levels of expressions; types in its types",
        f"{_count(effort.MAX_EFFORT)} units; {MAX_LEVELS}; {statictypes.MAX_TYPE_DEPTH}",
        "a compile error",
    ),
    Bound("compiled device selectors", _bytes(KEPT_BYTES), "the oldest is compiled again"),
    Bound(
        "processor time of a device selector on a device; time with waits",
        f"{process.PROCESSOR_SECONDS:g} s; {process.ANSWER_SECONDS:g} s",
        "it has no result and is tried again later",
    ),
    Bound(
        "time until a selector without a result is tried again",
        f"{process.FIRST_BACKOFF:g} s, doubled up to {process.LONGEST_BACKOFF:g} s",
        "it is tried again",
    ),
    Bound(
        "selectors without a result that are remembered",
        _count(process.MAX_BACKOFFS),
        "the oldest is tried again",
    ),
    Bound("memory of the process for device selectors", _bytes(process.MEMORY), "the selector has no result"),
    Bound("results of device selectors", _count(MAX_RESULTS), "the oldest are evaluated again"),
)
BOUNDS = (
    Bound("a file, and what a gzip file holds", _bytes(textfile.MAX_BYTES), _ERROR),
    Bound(
        "nesting of a YAML document, or of a JSON object that is read whole",
        _count(jsontext.MAX_DEPTH),
        _ERROR,
    ),
    Bound(
        "a watch after a change of leader, until it is current",
        f"{cache.CATCH_UP_SECONDS:g} s",
        "the kind is listed again; kinds of up to "
        f"{cache.FEW_OBJECTS:,} objects are listed at once. No decision is made before",
    ),
    Bound("values that aliases add to a YAML document", _count(yamldoc.MAX_ALIASED), _ERROR),
    Bound("Lists within Lists", _count(split.MAX_NESTED_LISTS), _ERROR),
    Bound("pods of one file for `whatif --add`", _count(MOST_PODS), _ERROR),
    Bound("claims of the pods of one file for `whatif --add`", _count(MOST_CLAIMS), _ERROR),
    Bound(
        "domains that `whatif --defragment` tries", _count(defragment.MOST_TRIED), "the others are `NotTried`"
    ),
    Bound(
        "steps of a search for devices on a node; on all nodes",
        f"{_count(devices.NODE_STEPS)}; {_count(devices.ALL_STEPS)}",
        "the node is refused",
    ),
    Bound(
        "time of the device selectors of a claim on a node; on all nodes",
        f"about {devices.NODE_EFFORT // 10**6} s; {devices.ALL_EFFORT // 10**6} s",
        "the node is refused; a live decision ends earlier",
    ),
    Bound("consumers of a resource claim", _count(MAX_CONSUMERS), "the pod waits, or preempts a consumer"),
    Bound(
        "time of the device selectors of a rule of `podium audit`",
        f"about {MAX_EFFORT // 10**6} s",
        "a finding names the costliest selector, and the others count as matching",
    ),
    Bound(
        "comparisons of devices and nodes by a rule of `podium audit`",
        _count(MAX_COMPARED),
        "the other claims are not reported",
    ),
    Bound("devices that `podium why` examines", _count(shortage.MAX_EXAMINED), _LEFT_OUT),
    Bound(
        "time of the device selectors in `podium why`",
        f"about {shortage.MAX_EFFORT // 10**6} s",
        _LEFT_OUT,
    ),
    Bound(
        "nodes on which `podium why` searches devices; steps on all of them",
        f"{_count(shortage.MAX_SEARCHED)}; {_count(shortage.MAX_STEPS)}",
        "no further reason is searched",
    ),
    Bound(
        "requests, reasons and nodes without devices that `podium why` lists",
        f"{shortage.MAX_REQUESTS}, {shortage.MAX_REASONS} and {shortage.MAX_NEAREST}",
        "the others are counted",
    ),
    *SELECTOR_BOUNDS,
    Bound("an object in a watch, as JSON", _bytes(LONGEST_LINE), "its last known state counts"),
    Bound("an object in a list, as JSON", _bytes(LONGEST_ANSWER), "an error that names the list"),
    Bound("nesting of an object of the API server", _count(jsontext.MAX_DEPTH), "what is deeper is left out"),
    Bound("an AdmissionReview", _bytes(handlers.ADMISSION_BYTES), "denied, 413"),
    Bound("values in the spec of a group", _count(review.MAX_DETAILS), "denied, 413"),
    Bound("a ConversionReview", _bytes(handlers.CONVERSION_BYTES), "413"),
    Bound("nesting of a spec in a ConversionReview", _count(jsontext.MAX_DEPTH), "the conversion fails"),
    Bound("an object in a list that is converted", _bytes(conversion.OBJECT_BYTES), "the conversion fails"),
    Bound("connections to the webhook", _count(Limits().connections), _DENIED),
    Bound("of these, connections that convert", _count(handlers.CONVERSION.connections), _SHED),
    Bound(
        "requests that wait in the webhook; of a namespace",
        f"{handlers.PLACES}; {handlers.PLACES_OF_NAMESPACE}",
        "judged at once",
    ),
    Bound("a request that waits in the webhook", _bytes(handlers.PATIENT_BYTES), "judged at once"),
    Bound("bytes of all reviews in the webhook", _bytes(handlers.ADMISSION.held_bytes), _DENIED),
    Bound("bytes of all conversions in the webhook", _bytes(handlers.CONVERSION.held_bytes), _SHED),
    Bound("conversions that wait in the webhook", _count(handlers.CONVERSION.waiting), _SHED),
    Bound("memory of the webhook", _bytes(footprint.LIMIT_BYTES), "the kubelet ends the container"),
    Bound("one warning; all of a request", f"{review.MAX_WARNING}; {review.MAX_WARNINGS} bytes", "it is cut"),
    Bound("the name of a Podium group or Workload", f"{MAX_PODIUM_NAME} characters", "422"),
    Bound("priority of a group before Kubernetes 1.38", _count(HIGHEST_USER_PRIORITY), "422"),
    Bound("templates of a Workload", _count(MAX_TEMPLATES), "422"),
    Bound(
        "resources that nodes offer and pods request",
        _count(arrays.MOST_RESOURCES),
        "pods that request those which the fewest nodes offer wait, with the reason",
    ),
    Bound(
        "labels of nodes that pods select by",
        f"{_count(arrays.MOST_COLUMNS)} keys",
        "each further key is read from the nodes for each use",
    ),
    Bound(
        "the nodes that suit pods, by what the pods require, in each filter",
        _bytes(nodes.KEPT_BYTES),
        "the oldest are computed again",
    ),
    Bound(
        "resources of a pod or a node",
        _count(MOST_NAMES),
        "the first ones count, with cpu and memory; such a pod waits, with the reason",
    ),
    Bound("affinity terms of a pod", _count(shapes.MOST_TERMS), "it waits, with the reason"),
    Bound(
        "budgets that are compared with a pod",
        _count(budgets.MOST_BUDGETS),
        "those that come later by name do not count",
    ),
    Bound(
        "keys and values in the expressions of a budget's selector",
        _count(budgets.MOST_VALUES),
        "the budget counts no pod",
    ),
    Bound("gangs of an owner that are looked up when it changes", _count(MOST_GANGS), "known by their pods"),
    Bound("groups of a tree, with its root", _count(MAX_GROUPS), "its pods wait, with the reason"),
    Bound("resource claims of a group", _count(MAX_CLAIMS), "422"),
    Bound("a condition's message", _bytes(MAX_MESSAGE), "it is cut"),
    Bound(
        "plans in a PreemptionRecord",
        f"{records.MAX_PLANS}, {_bytes(recordring.MAX_BYTES)}",
        "the next object is begun",
    ),
    Bound("PreemptionRecords of a scheduler", _count(recordring.OBJECTS), "the oldest is written over"),
    Bound(
        "pods whose deletion the API server refuses",
        _count(inflight.MOST_FAILURES),
        "the oldest may be victims again",
    ),
    Bound(
        "time for which such a pod is no victim; if it changes",
        f"{inflight.LONGEST_SECONDS} s; {inflight.LONGEST_LEAST_SECONDS} s",
        "it may be chosen again, and is deleted first",
    ),
)
# The copied figures, by section of bench/RESULTS.md.
FIGURES: dict[str, tuple[str, ...]] = {
    "Audit": (
        "`podium audit -o json`, whole process (100,000 pods, 10,000 groups, 5,000 nodes, 1,005 MB)",
        "audit, peak resident memory",
    ),
    "Admission webhook": (
        "pod of 5.3 KB, Podium, throughput",
        "PodGroup of 1.6 KB, Podium, throughput",
        "Podium, after the load above, 10,000 groups, resident",
    ),
    "Writes to a real API server": (
        "create a member pod, p50, difference, round by round",
        "create a pod in no group, p50, difference, round by round",
    ),
    "Reconciler": (
        "start of the process to every condition",
        "storm, pod's event to condition, p99",
        "storm, resident memory at its end",
    ),
    "Preemption": (
        "lone pod preempts, 5,000 nodes, 100,000 pods, p99; target under 10 ms",
        "gang of 1,000, 5,000 nodes, 100,000 pods, 1,000 budgets, 4,381 pods evicted; target under 300 ms",
        "100,000 nodes, 1,000,000 pods: gang of 10,000",
        "100,000 nodes, 1,000,000 pods: peak resident memory",
    ),
    "Pods a second beside kube-scheduler": (
        "SchedulingBasic, 1,000 nodes, 4,000 pods, Podium",
        "Podium's resident memory, 5,000 nodes, 50,000 pods, 1,000 more bound; target under 500 MiB",
    ),
    "Preemptors a second beside kube-scheduler": ("PreemptionBasic, 1,000 nodes, 1,000 preemptors, Podium",),
    "Gangs that preempt beside kube-scheduler": ("gang of 1,000 over 5 gangs, 1,000 nodes, Podium",),
    "Takeover by a standby": (
        "5,000 nodes, 50,000 pods, API server: leader killed, from the lease to the first bind",
        "5,000 nodes, 50,000 pods, API server: leader released, from the lease to the first bind",
        "5,000 nodes, 50,000 pods, API server: memory of a standby",
        "15,000 nodes, 150,000 pods, stub: leader killed, from the lease to the first bind",
        "15,000 nodes, 150,000 pods, stub: memory of a standby",
    ),
    "From nothing to the first gang": ("from its start to the first gang on its nodes",),
}


def reference() -> str:
    """Return both tables in Markdown.

    Raises ValueError for a figure that was not measured.
    """
    return (
        f"### Bounds\n\n{_bounds(BOUNDS)}\n"
        f"### Measured\n\n| Measurement | Figure |\n|---|---|\n{''.join(_measured())}"
    )


def selectors() -> str:
    """Return the table of the limits of selectors in Markdown."""
    return _bounds(SELECTOR_BOUNDS)


def _bounds(bounds: Iterable[Bound]) -> str:
    rows = "".join(f"| {bound.of} | {bound.at} | {bound.beyond} |\n" for bound in bounds)
    return f"| Of | At most | Beyond it |\n|---|---|---|\n{rows}"


def _measured() -> list[str]:
    results = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", results, re.MULTILINE | re.DOTALL))
    rows = []
    for section, names in FIGURES.items():
        figures = dict(re.findall(r"^\| (.*) \| (.*) \|$", sections.get(section, ""), re.MULTILINE))
        for name in names:
            if name not in figures:
                raise ValueError(f"bench/RESULTS.md has no {name!r} under {section!r}")
            rows.append(f"| {section}: {name.partition('; target')[0]} | {figures[name]} |\n")
    return rows
