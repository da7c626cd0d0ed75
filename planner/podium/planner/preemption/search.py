"""Searches for the units whose eviction does the least harm while the preemptor has room.

It begins with all units removed and reprieves as many as it can, the most important first. That is the
reprieve of KEP-5710, but without a placement that was fixed before. It also begins with no unit removed, and
removes those of the node that costs least, one pod of the preemptor after the other. The better result is
improved: some units at a time are decided anew by branch and bound. Some of them are victims, some are on one
node, and some are others by chance. The search ends after so many decisions without less harm. The number of
steps is bounded by a number and not by time, so the same cluster has the same answer.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from podium.planner.deadline import Deadline
from podium.planner.preemption.capacity import PodCapacity, PodUsage

# How many pods are moved to improve a plan. A pod takes a few microseconds.
EFFORT = 15_000
# The same for a plan on one node, of which a lone pod has several made.
NODE_EFFORT = 2_000
# More units than this return in runs if the preemptor has several kinds of pods.
_RUNS = 512
# So many units are decided anew at a time, and so often without less harm before the search ends.
_REBUILT, _TRIES = 22, 48
# The most steps of one of these decisions.
_STEPS = 300
# The parts of a pod in which usefulness is counted where it divides weights, which no float can hold.
_SHARE = 1_024


class Candidate(NamedTuple):
    """A potential victim: the resources of its pods on nodes of the preemptor, and its weight.

    `weight` and `shared` are those of `harm.weights`. `charges` are numbers of pods by budget. `useful` is
    roughly the number of the preemptor's pods that it makes room for. `surplus` are the positions of
    candidates that are evicted with it.
    """

    usage: Sequence[PodUsage]
    weight: int
    priority: int
    useful: float
    charges: Sequence[tuple[int, int]] = ()
    surplus: Sequence[int] = ()
    shared: Sequence[tuple[int, int]] = ()


class Search:
    """One search; `allowed` is the number of disruptions that each budget still allows."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        capacity: PodCapacity,
        needed: int,
        allowed: Sequence[int],
        deadline: Deadline,
        *,
        effort: int = EFFORT,
    ) -> None:
        """`capacity` is that with all candidates gone. Without `effort` the first plan is the answer."""
        self._max_effort = effort
        self._candidates = candidates
        self._capacity = capacity
        self._needed = needed
        self._deadline = deadline
        self._evicted = set(range(len(candidates)))
        self._core_of = {above: at for at, candidate in enumerate(candidates) for above in candidate.surplus}
        self._allowed = list(allowed)
        self._violations = 0
        self._weight = 0
        # By claim, the weights that evicted units have for it.
        self._of_claims: dict[int, list[int]] = defaultdict(list)
        self._effort = 0
        # The same choices for the same cluster.
        self._chance = random.Random(0)  # noqa: S311
        for candidate in candidates:
            self._count(candidate, 1)

    def least(self) -> list[int] | None:
        """Return the positions of the units to evict, None where all of them do not make enough room."""
        if self._capacity.pod_count() < self._needed:
            return None
        victims = self._best_reprieve()
        self._set(victims)
        if self._capacity.unlimited:
            self._effort = 0
        self._improve()
        return self._victims()

    @property
    def _score(self) -> tuple[int, int]:
        return self._violations, self._weight

    def _best_reprieve(self) -> list[int]:
        """Return what is left to evict after the best of several ways to give units back."""
        positions = range(len(self._candidates))
        by_weight = sorted(positions, key=self._by_weight)
        by_use = sorted(positions, key=self._by_use)
        by_price = sorted(positions, key=self._by_price)
        useless = sorted(by_weight, key=lambda at: self._candidates[at].useful)
        by_charge = sorted(positions, key=self._by_charge)
        # Where budgets are short, their units return first, those that make least room before others.
        starts: list[tuple[list[int], list[int]]] = [([], by_weight), ([], by_use), ([], by_price)]
        if not self._max_effort:
            starts = starts[:1]
        elif self._allowed:
            orders = (by_weight, by_use, by_price)
            starts += [(first, order) for first in (by_weight, useless, by_charge) for order in orders]
        best: tuple[tuple[int, int], list[int]] | None = None
        for first, order in starts:
            self._set(positions)
            self._reprieve_for_budgets(first)
            self._reprieve(order)
            if best is None or self._score < best[0]:
                best = self._score, self._victims()
            # Packing many nodes takes as long as moving hundreds of pods, and half of the effort improves.
            packed = not self._capacity.unlimited and 2 * self._effort >= self._max_effort
            if packed or self._deadline.is_half_spent:
                break
        assert best is not None
        grown = self._grown() if self._capacity.unlimited and self._max_effort else None
        return best[1] if grown is None or best[0] <= self._score else grown

    def _grown(self) -> list[int] | None:
        """Return victims found the other way round: units leave where one more pod costs least."""
        self._set(())
        nodes = list(self._by_node(range(len(self._candidates))).values())
        while (room := self._capacity.pod_count()) < self._needed:
            least: tuple[tuple[int, int], list[int]] | None = None
            for units in nodes:
                group = [at for at in self._with_surplus(units) if at not in self._evicted]
                for at in group:
                    self._evict(at)
                if self._capacity.pod_count() > room:
                    for at in sorted(group, key=self._by_loss):
                        if self._core_of.get(at) not in self._evicted:
                            self._put_back(at)
                            if self._capacity.pod_count() <= room:
                                self._evict(at)
                    if least is None or self._score < least[0]:
                        least = self._score, [at for at in group if at in self._evicted]
                for at in group:
                    if at in self._evicted:
                        self._put_back(at)
                if not self._may_improve:
                    return None
            if least is None:
                return None
            for at in least[1]:
                self._evict(at)
        self._reprieve(sorted(self._evicted, key=self._by_weight))
        return self._victims()

    def _by_node(self, units: Iterable[int]) -> dict[int, list[int]]:
        """Return the units by node; one with pods on several nodes is on each."""
        by_node: dict[int, list[int]] = {}
        for at in units:
            for node in dict.fromkeys(node for node, _ in self._candidates[at].usage):
                by_node.setdefault(node, []).append(at)
        return by_node

    def _reprieve_for_budgets(self, order: Iterable[int]) -> None:
        """Return back units, in order, as long as they take a budget beyond what it allows."""
        for at in order:
            if not self._violations:
                return
            if at in self._evicted and any(
                self._allowed[budget] < 0 for budget, _ in self._candidates[at].charges
            ):
                self._try_reprieve(at)

    def _reprieve(self, order: Sequence[int]) -> None:
        """Return back every unit, in order, without which there is room enough."""
        if not self._capacity.unlimited and len(order) > _RUNS:
            self._reprieve_in_runs([at for at in order if at in self._evicted])
            return
        for at in order:
            if at in self._evicted and self._try_reprieve(at):
                # Surplus that came before its core in the order had to wait for it.
                self._reprieve([above for above in self._candidates[at].surplus if above in self._evicted])

    def _reprieve_in_runs(self, order: Sequence[int]) -> None:
        """Do the same with few packings: many units return at once, and equal ones are refused at once.

        Room only gets less, so units that return together would nearly always also return one by one, and a
        unit equal to one that was refused would be refused. A packing is no proof of either.
        """
        refused: set[tuple[PodUsage, ...]] = set()
        first, size = 0, 1
        while first < len(order):
            run = order[first : first + size]
            if size > 1 and not any(self._candidates[at].surplus or at in self._core_of for at in run):
                returned = self._try_reprieve_all(run)
                first += len(run) if returned else 0
                size = size * 2 if returned else size // 2
                continue
            at, usage = order[first], tuple(self._candidates[order[first]].usage)
            returned = at in self._evicted and usage not in refused and self._try_reprieve(at)
            if returned:
                self._reprieve([above for above in self._candidates[at].surplus if above in self._evicted])
            elif at in self._evicted and self._core_of.get(at) not in self._evicted:
                refused.add(usage)
            first, size = first + 1, 2 if returned else 1

    def _try_reprieve_all(self, run: Sequence[int]) -> bool:
        """Return units back if there is room enough without all of them."""
        for at in run:
            self._put_back(at)
        if self._has_room():
            return True
        for at in run:
            self._evict(at)
        return False

    def _try_reprieve(self, at: int) -> bool:
        if self._core_of.get(at) in self._evicted:
            return False
        self._put_back(at)
        if self._has_room():
            return True
        self._evict(at)
        return False

    def _has_room(self) -> bool:
        self._deadline.enforce()
        room = self._capacity.pod_count() >= self._needed
        self._effort += self._capacity.step
        return room

    def _improve(self) -> None:
        """Decide anew about some units while that makes the harm less, and half of the time is left.

        A plan that does more harm than another is better than no decision.
        """
        while self._may_improve and self._rebuilt():
            pass

    @property
    def _may_improve(self) -> bool:
        return self._effort < self._max_effort and not self._deadline.is_half_spent

    def _exchangeable(self) -> list[int]:
        """Return the units that stay, and that a better plan may evict."""
        top = max((self._candidates[at].priority for at in self._evicted), default=None)
        return [
            at
            for at, candidate in enumerate(self._candidates)
            if at not in self._evicted and top is not None and (self._violations or candidate.priority <= top)
        ]

    def _rebuilt(self) -> bool:
        """Decide anew about several units at once, by chance; return whether a choice does less harm."""
        score, before, staying = self._score, self._victims(), self._exchangeable()
        if len(before) + len(staying) <= _REBUILT:
            self._rebuild([*before, *staying], self._max_effort)
            return False
        by_node = self._by_node(staying)
        for number in range(_TRIES):
            if not self._may_improve or not before:
                break
            group = self._chance.sample(before, min(len(before), _REBUILT // 2))
            # In turn: what is on nodes of victims, or on another node, and others.
            near = self._chance.choice([*by_node.values()] or [staying])
            if number % 2:
                nodes = (node for at in group[:2] for node, _ in self._candidates[at].usage)
                near = list(dict.fromkeys(at for node in nodes for at in by_node.get(node, ())))
            group += self._chance.sample(near, min(len(near), (_REBUILT - len(group)) * 3 // 4))
            taken = set(group)
            others = [at for at in staying if at not in taken]
            group += self._chance.sample(others, min(len(others), _REBUILT - len(group)))
            self._effort += len(staying) // _REBUILT
            self._rebuild(group, _STEPS)
            if self._score < score:
                return True
        return False

    def _rebuild(self, group: Iterable[int], most: int) -> None:
        """Find by branch and bound, in so many steps, which of some units to evict, beside all others."""
        self._deadline.enforce()
        best, victims, capacity = self._score, self._victims(), self._capacity
        steps = 0
        order = self._with_surplus(group)
        order.sort(key=lambda at: (at in self._core_of, *self._by_loss(at)))
        self._set({*victims, *order})
        # Of those not decided yet the room is counted, and no harm.
        for at in order:
            self._evicted.discard(at)
            self._count(self._candidates[at], -1)

        def visit(depth: int) -> None:
            nonlocal best, victims, steps
            if depth == len(order):
                best, victims = self._score, self._victims()
                return
            at, unit = order[depth], self._candidates[order[depth]]
            self._effort += 1 + len(unit.usage)
            steps += 1
            if steps > most or self._effort >= self._max_effort:
                return
            if self._core_of.get(at) not in self._evicted:
                capacity.restore(unit.usage)
                room = capacity.pod_count() >= self._needed
                self._effort += capacity.step
                if room:
                    visit(depth + 1)
                capacity.remove(unit.usage)
            self._evicted.add(at)
            self._count(unit, 1)
            if self._score < best:
                visit(depth + 1)
            self._evicted.discard(at)
            self._count(unit, -1)

        visit(0)
        for at in order:
            self._evicted.add(at)
            self._count(self._candidates[at], 1)
        self._set(victims)

    def _with_surplus(self, group: Iterable[int]) -> list[int]:
        """Return units, and those that are evicted with them."""
        group = list(group)
        return list(
            dict.fromkeys([*group, *(extra for at in group for extra in self._candidates[at].surplus)])
        )

    def _by_loss(self, at: int) -> tuple[float, ...]:
        unit = self._candidates[at]
        return -sum(pods for _, pods in unit.charges) if self._violations else 0, -unit.weight

    def _by_weight(self, at: int) -> tuple[float, ...]:
        return (-self._candidates[at].weight,)

    def _by_price(self, at: int) -> tuple[float, ...]:
        candidate = self._candidates[at]
        return -candidate.priority, -candidate.weight * _SHARE // (1 + int(candidate.useful * _SHARE))

    def _by_charge(self, at: int) -> tuple[float, ...]:
        candidate = self._candidates[at]
        return -sum(pods for _, pods in candidate.charges) / (candidate.useful + 1e-3), -candidate.weight

    def _by_use(self, at: int) -> tuple[float, ...]:
        candidate = self._candidates[at]
        return -candidate.priority, candidate.useful, -candidate.weight

    def _victims(self) -> list[int]:
        return sorted(self._evicted)

    def _set(self, victims: Iterable[int]) -> None:
        goal = set(victims)
        for at in sorted(self._evicted - goal):
            self._put_back(at)
        for at in sorted(goal - self._evicted):
            self._evict(at)

    def _evict(self, at: int) -> None:
        candidate = self._candidates[at]
        self._evicted.add(at)
        self._capacity.remove(candidate.usage)
        self._effort += len(candidate.usage)
        self._count(candidate, 1)

    def _put_back(self, at: int) -> None:
        candidate = self._candidates[at]
        self._evicted.discard(at)
        self._capacity.restore(candidate.usage)
        self._effort += len(candidate.usage)
        self._count(candidate, -1)

    def _count(self, candidate: Candidate, sign: int) -> None:
        self._weight += sign * candidate.weight
        for claim, weight in candidate.shared:
            weights = self._of_claims[claim]
            self._weight += _counted_twice(weights)
            (weights.append if sign > 0 else weights.remove)(weight)
            self._weight -= _counted_twice(weights)
        for budget, pods in candidate.charges:
            before = self._allowed[budget]
            after = self._allowed[budget] = before - sign * pods
            self._violations += max(-after, 0) - max(-before, 0)


def _counted_twice(weights: Sequence[int]) -> int:
    """Return how much the weights of a claim are more than the largest, which alone counts."""
    return sum(weights) - max(weights, default=0)
