"""The groups and pods that the chosen version will not schedule: the first sentence of a report.

A group counts with all its live pods, including running pods: they run until they are evicted or the group
restarts, and then wait. Only refusals of the scheduler itself count. Groups of Podium's scheduler are not
blocked by divergence, because it still places a group in doubt in free room. Warnings about missing pods
(fewer than minCount) do not count, because the pods may appear within seconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from podium.answers.audits.report import Blocked, BlockedShare
from podium.api.core import Pod
from podium.api.reads import Kind
from podium.groups.messages import is_refused
from podium.rules.audit.claims import claims_exceeded, shares_too_much
from podium.rules.audit.survey import Survey, SurveyedGroup
from podium.rules.audit.topology import waits_for_ever


class _Tally:
    def __init__(self) -> None:
        self.groups = 0
        self.pods = 0
        self.accelerators: Counter[str] = Counter()

    def add(self, pods: int, accelerators: dict[str, int]) -> None:
        self.pods += pods
        for name, number in accelerators.items():
            self.accelerators[name] += number * pods

    def result(self) -> Blocked:
        return Blocked(self.groups, self.pods, dict(sorted(self.accelerators.items())))


def blocked_groups(survey: Survey) -> list[SurveyedGroup]:
    """Return the groups whose live pods are not scheduled now, or will not be if they are recreated."""
    return [each for each in survey.groups if _is_blocked(survey, each)]


def blocked(
    survey: Survey, groups: Iterable[SurveyedGroup]
) -> tuple[Blocked, list[BlockedShare], list[BlockedShare]]:
    """Return the totals of some groups: overall, by namespace and by owner, most pods first."""
    total = _Tally()
    namespaces: dict[str, _Tally] = defaultdict(_Tally)
    owners: dict[str, _Tally] = defaultdict(_Tally)
    for each in groups:
        here = namespaces[each.key.namespace]
        theirs: set[str] = set()
        shares = Counter((_owner(survey, pod), survey.capacity.shape(pod)) for pod in each.present)
        for (owner, shape), number in shares.items():
            for tally in (total, here, owners[owner]):
                tally.add(number, shape.devices())
            theirs.add(owner)
        for tally in (total, here, *(owners[owner] for owner in theirs)):
            tally.groups += 1
    return total.result(), _shares(namespaces.items()), _shares(owners.items())


def _is_blocked(survey: Survey, each: SurveyedGroup) -> bool:
    if not each.stored or (each.key.native and survey.minor <= 35):
        return False
    if each.group is None:
        return survey.read(Kind.POD_GROUP) and not survey.selected
    if each.shortfall is not None or each.key in survey.pinned or _shares_claim(survey, each):
        return True
    if waits_for_ever(survey, each):
        return True
    if not each.key.native or each.divergence is None:
        return False
    if each.is_split(survey.minor):
        return True
    return is_refused(each.group, each.divergence, survey.minor)


def _shares_claim(survey: Survey, each: SurveyedGroup) -> bool:
    """Return whether members share a claim that too few pods may use.

    1.36 places all members with a claim of one pod, and one starts.
    """
    if survey.read(Kind.RESOURCE_CLAIM) and claims_exceeded(survey, each):
        return True
    refused = survey.minor >= 37 or not each.key.native
    return refused and survey.read(Kind.CLAIM) and shares_too_much(survey, each)


def _owner(survey: Survey, pod: Pod) -> str:
    owner = survey.owner(pod)
    return str(owner) if owner is not None else f"bare pods in {pod.metadata.namespace}"


def _shares(tallies: Iterable[tuple[str, _Tally]]) -> list[BlockedShare]:
    shares = [BlockedShare(name, tally.result()) for name, tally in tallies]
    return sorted(shares, key=lambda share: (-share.blocked.pods, share.name))
