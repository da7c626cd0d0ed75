"""The cases with kubectl itself: create, apply, apply --server-side, replace, patch.

One command takes all documents of a table. Cases with a default class or an object being deleted use plain
requests only, which equal kubectl's. `kubectl patch` takes one object a command, so it is tried on a few
cases.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.admission.edits import edited
from tests.support.admission.recording import canonical
from tests.support.parity import kubectl
from tests.support.parity.case import Case
from tests.support.parity.cases import cases
from tests.support.parity.compare import Exchange, manifest, named
from tests.support.parity.explained import explained, explanations
from tests.support.parity.scene import NAMESPACE
from tests.support.parity.sides import Answer, Document, Side, Sides, Way, in_common, json_patch, merge_patch
from tests.support.servers import FULL

pytestmark = pytest.mark.server

_SERVER_SIDE = ("apply", "--server-side")
_CREATES = ((Way.CREATE, ("create",)), (Way.MERGE, ("apply",)), (Way.APPLY, _SERVER_SIDE))
# How the object was created, and how it is changed.
_UPDATES = (
    (("apply",), Way.MERGE, ("apply",)),
    (_SERVER_SIDE, Way.APPLY, _SERVER_SIDE),
    (("create",), Way.REPLACE, ("replace",)),
)
_PATCHED = ("another priority", "another minCount", "a label")


def test_creates_by_kubectl_have_the_servers_verdicts(sides: Sides) -> None:
    """Both servers answer every create alike; `kubectl apply` runs as a dry run first."""
    rows = [case for case in _plain(sides) if not case.update]
    for way, verb in _CREATES:
        documents = [named(case, f"kubectl-{way}", NAMESPACE) for case in rows]
        _agree(sides, _tried(sides, rows, documents, way, verb))


@pytest.mark.parametrize(("made", "way", "verb"), _UPDATES, ids=[str(way) for _, way, _ in _UPDATES])
def test_changes_by_kubectl_have_the_servers_verdicts(
    sides: Sides, made: Sequence[str], way: Way, verb: Sequence[str]
) -> None:
    """Both servers answer every change of a manifest alike; `kubectl apply` runs as a dry run first."""
    rows = [case for case in _plain(sides) if case.update and not case.subresource]
    before = [named(case, f"kubectl-{way}-2", NAMESPACE) for case in rows]
    _make(sides, made, before)
    after = [edited(document, case.edits or ()) for case, document in zip(rows, before, strict=True)]
    _agree(sides, _tried(sides, rows, after, way, verb))


@pytest.mark.parametrize("way", [Way.MERGE, Way.JSON])
def test_patches_by_kubectl_have_the_servers_verdicts(sides: Sides, way: Way) -> None:
    """Both servers answer `kubectl patch --type` of a few cases alike."""
    rows = [case for case in _plain(sides) if case.update and case.name in _PATCHED]
    documents = [named(case, f"kubectl-patch-{way}", NAMESPACE) for case in rows]
    _make(sides, ("create",), documents)
    exchanges = []
    for case, document in zip(rows, documents, strict=True):
        native, podium = (_patched(side, case, document, way) for side in sides)
        exchanges.append(Exchange(case=case, way=way, dry=False, native=native, podium=podium))
    _agree(sides, exchanges)


def test_a_strategic_patch_is_for_native_kinds_only(sides: Sides) -> None:
    """No custom resource accepts `kubectl patch` without --type, and kubectl reports that."""
    case = next(case for case in _plain(sides) if case.name == "a label")
    document = named(case, "kubectl-strategic", NAMESPACE)
    _make(sides, ("create",), [document])
    native, podium = (_patched(side, case, document, None) for side in sides)
    assert native.allowed, native
    assert "application/strategic-merge-patch+json is not supported" in podium.message


def _make(sides: Sides, verb: Sequence[str], documents: Sequence[Document]) -> None:
    for answers in _both(sides, verb, documents):
        refused = [answer for answer in answers if not answer.allowed]
        assert not refused, refused


def _both(sides: Sides, verb: Sequence[str], documents: Sequence[Document]) -> list[list[Answer]]:
    """Run kubectl on both servers at once, because it mostly waits."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda side: kubectl.batch(side, verb, documents), sides))


def _patched(side: Side, case: Case, document: Document, way: Way | None) -> Answer:
    stored = side.read(document)
    assert stored is not None
    wanted = edited(manifest(stored), case.edits or ())
    patch: Any = json_patch(stored, wanted) if way is Way.JSON else merge_patch(stored, wanted)
    kind = f"{case.kind.lower()}s.{side.version}.{side.group}"
    typed = [f"--type={way}"] if way else []
    arguments = [
        "patch",
        kind,
        document["metadata"]["name"],
        f"-n={NAMESPACE}",
        *typed,
        "-p",
        json.dumps(patch),
    ]
    done = kubectl.run(side, *arguments)
    return Answer(code=200) if done.returncode == 0 else next(kubectl.refused(done.stderr))


def _plain(sides: Sides) -> list[Case]:
    return [case for case in cases(sides.minor) if not case.default and not case.deleted]


def _tried(
    sides: Sides, rows: Sequence[Case], documents: Sequence[Document], way: Way, verb: Sequence[str]
) -> Iterator[Exchange]:
    for dry in (True, False) if FULL or verb == ("apply",) else (False,):
        arguments = [*verb, *(["--dry-run=server"] if dry else [])]
        native, podium = _both(sides, arguments, documents)
        stored = [{} if dry else _listed(side) for side in sides]
        for case, document, theirs, ours in zip(rows, documents, native, podium, strict=True):
            key = (case.kind, document["metadata"]["name"])
            yield Exchange(
                case=case,
                way=way,
                dry=dry,
                native=theirs,
                podium=ours,
                native_stored=stored[0].get(key),
                podium_stored=stored[1].get(key),
            )


def _listed(side: Side) -> dict[tuple[str, str], Document]:
    found = {}
    for kind in ("PodGroup", "Workload"):
        path = side.path({"kind": kind, "metadata": {"namespace": NAMESPACE}})
        code, answer = side.client.request("GET", path)
        assert code == 200, answer
        for item in in_common(answer)["items"]:
            typed = {"apiVersion": in_common(answer)["apiVersion"], "kind": kind, **item}
            found[kind, item["metadata"]["name"]] = canonical(typed)
    return found


def _agree(sides: Sides, exchanges: Iterable[Exchange]) -> None:
    known = explanations(sides.minor)
    rests = [explained(exchange, known) for exchange in exchanges]
    assert rests
    wrong = [f"{rest}\n  after {names}" for rest, names in rests if not rest.equal]
    assert not wrong, f"{sides}: {len(wrong)} differ\n" + "\n".join(wrong[:20])
