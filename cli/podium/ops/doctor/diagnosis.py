"""All checks in the order in which they explain each other: the server, Podium, other components."""

from collections.abc import Callable, Iterator

from podium.ops.doctor import neighbours, placement, policies, processes, registration, rights, server
from podium.ops.doctor.check import CheckLevel, DoctorCheck
from podium.ops.doctor.facts import ClusterFacts

_CHECKS: tuple[Callable[[ClusterFacts], Iterator[DoctorCheck]], ...] = (
    server.version,
    server.clock,
    server.workload_api,
    processes.installed,
    processes.deployments,
    processes.leases,
    processes.probes,
    processes.undecodable,
    processes.preemption,
    processes.policies,
    server.custom_resources,
    registration.registrations,
    registration.trust,
    registration.endpoints,
    registration.trial,
    policies.policies,
    rights.rights,
    rights.own_rights,
    placement.own_pods,
    neighbours.webhooks,
    neighbours.mutators,
    neighbours.schedulers,
    neighbours.classes,
    neighbours.nodes,
)


def diagnose(facts: ClusterFacts) -> list[DoctorCheck]:
    """Return every check, the worst first."""
    found = [each for check in _CHECKS for each in check(facts)]
    return sorted(found, key=lambda each: list(CheckLevel).index(each.level))
