"""Unbound claims on generated clusters: every node has the answer of a plain oracle, for pods and gangs."""

import random
from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.volumes.generated import Generated, generated
from tests.support.volumes.manifests import Manifest, binding, read_claims
from tests.support.volumes.plain_binding import PlainAnswer, PlainBinding, PlainLedger, PlainSegment

from podium.planner.plugins.volumes.delayed import DelayedBinding
from podium.planner.plugins.volumes.writes import ProvisionedVolume, VolumePlan

SEEDS = st.integers(0, 2**32)


def cluster(seed: int) -> Generated:
    return generated(random.Random(seed))


def name_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


def plain(plan: VolumePlan, ledger: PlainLedger) -> PlainAnswer:
    """Return a plan in the oracle's form, whose answers have no claims that the ledger has."""
    known = {*ledger.volumes, *ledger.nodes}
    return PlainAnswer(
        None,
        {each.claim[1]: each.volume for each in plan.bound if each.claim[1] not in known},
        {each.claim[1]: plain_segment(each) for each in plan.provisioned if each.claim[1] not in known},
    )


def plain_segment(planned: ProvisionedVolume) -> PlainSegment | None:
    if planned.segment is None:
        return None
    labels = frozenset((each.key, each.values[0]) for each in planned.segment.topology.requirements)
    return planned.segment.storage_class, labels


def compare(
    made: Generated,
    bound: DelayedBinding,
    rows: Mapping[str, int],
    claims: Sequence[Manifest],
    ledger: PlainLedger,
) -> None:
    """Check the answer for every node, for a lone pod and for a member of a gang."""
    oracle = PlainBinding(made.storage)
    for summed in (False, True):
        found = bound.find(read_claims(claims), summed=summed)
        refused = dict.fromkeys(rows, "")
        for reason, where in found.refused_rows():
            refused |= {node: reason for node, row in rows.items() if where[row]}
        refusing = sum(found.reason(row) is not None for row in rows.values())
        assert sum(found.refusing_claims().values()) == refusing
        for node in made.nodes:
            name, wanted = name_of(node), oracle.answer(claims, node, ledger, summed=summed)
            assert found.reason(rows[name]) == wanted.reason
            assert refused[name] == (wanted.reason or "")
            assert bool(found.feasible[rows[name]]) == (wanted.reason is None)
            if wanted.reason is None:
                assert plain(found.plan(name), ledger) == wanted


@given(SEEDS)
def test_every_node_has_the_answer_of_the_oracle(seed: int) -> None:
    made = cluster(seed)
    snapshot, bound = binding(made.nodes, made.storage)
    for claims in made.pods:
        compare(made, bound, snapshot.row, claims, PlainLedger())


@given(SEEDS)
def test_members_see_the_plans_of_earlier_members(seed: int) -> None:
    """No volume serves two claims, no segment gives more than it has, and a shared claim has one place."""
    made, dice = cluster(seed), random.Random(seed)
    snapshot, bound = binding(made.nodes, made.storage)
    ledger = PlainLedger()
    for claims in made.pods:
        compare(made, bound, snapshot.row, claims, ledger)
        found = bound.find(read_claims(claims), summed=True)
        nodes = [name for name, row in snapshot.row.items() if found.feasible[row]]
        if nodes:
            plan = found.plan(dice.choice(nodes))
            bound.ledger.assume(plan.claims)
            note(ledger, plan)
    assert len(set(ledger.volumes.values())) == len(ledger.volumes)
    assert not ledger.volumes.keys() & ledger.nodes.keys()


def note(ledger: PlainLedger, plan: VolumePlan) -> None:
    """Assume a plan in the oracle's ledger."""
    for bound in plan.bound:
        ledger.volumes[bound.claim[1]] = bound.volume
    for provisioned in plan.provisioned:
        name, segment = provisioned.claim[1], plain_segment(provisioned)
        if name not in ledger.nodes and segment is not None:
            ledger.promised[segment] += provisioned.size
            ledger.segments[name] = segment
        ledger.nodes[name] = provisioned.node
