"""What keeps a broker too full: the constraint without which it would be relieved.

Each constraint is lifted, first alone, then with others, until the planner finds a first move. So a
reason is a claim that was tried: without what it names there is a better plan, with it there is
none. Where nothing helps, no bundle fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import BundleView, ClusterView, rest_text, until_text
from broker_ctl.core.rules.leader_rules import BalanceRules, Band
from broker_ctl.core.strategies.balance.headroom import imbalance_bound
from broker_ctl.core.strategies.balance.planner import (
    Move,
    Relief,
    apply_moves,
    carried_of,
    first_moves,
)
from broker_ctl.core.strategies.balance.planner_input import PlannerContext, PlannerInput, Rows
from broker_ctl.core.strategies.balance.problem import NO_SPREAD, BalanceProblem, Flags


class Constraint(Enum):
    """What can keep a bundle where it is; in the order in which they are named."""

    REST = auto()
    RETURN = auto()
    WAIT = auto()
    RECEIVER = auto()
    LIMIT = auto()
    TOPIC_CAP = auto()
    PLACE = auto()
    EXCLUDED = auto()


# These hold bundles, each by itself; the others are about brokers.
_OF_BUNDLES: Final = frozenset({Constraint.REST, Constraint.WAIT, Constraint.EXCLUDED})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a broker is not relieved: the reason, and words with the keys and the ends."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Obstacles:
    """The obstacles of one plan.

    Attributes:
        problem: what the planner was given.
        relief: what it found.
    """

    view: ClusterView
    planner_input: PlannerInput
    context: PlannerContext
    rules: BalanceRules
    band: Band
    problem: BalanceProblem
    relief: Relief

    def of(self, broker: int) -> Obstacle | None:
        """What keeps a broker too full; None: no bundle of it fits anywhere."""
        if first_moves(self._after, self.band, broker):
            most = self.rules.most_moves
            text = f"{most} moves are planned, the most of one cycle; the next one goes on"
            return Obstacle(Reason.CYCLE_LIMIT, text)
        found = self.lifted(broker)
        if found is None:
            return None
        constraints, moves = found
        parts = [self._text(each, moves) for each in constraints]
        text = "; and ".join(dict.fromkeys(part.text for part in parts))
        return Obstacle(parts[0].reason, text)

    def lifted(self, broker: int) -> tuple[tuple[Constraint, ...], list[Move]] | None:
        """The constraints whose lifting lets the broker give, and what it would give then."""
        holding = self._holding
        prefixes = (holding[:count] for count in range(2, len(holding) + 1))
        for constraints in chain(((each,) for each in holding), prefixes):
            moves = self._moves(broker, constraints)
            if moves:
                return self._fewest(broker, constraints, moves)
        return None

    def _fewest(
        self, broker: int, constraints: tuple[Constraint, ...], moves: list[Move]
    ) -> tuple[tuple[Constraint, ...], list[Move]]:
        """Without those that need not be lifted."""
        for each in constraints:
            fewer = tuple(other for other in constraints if other is not each)
            if fewer and (found := self._moves(broker, fewer)):
                constraints, moves = fewer, found
        return constraints, moves

    def _moves(self, broker: int, constraints: Sequence[Constraint]) -> list[Move]:
        return first_moves(self.without(constraints), self.band, broker)

    @cached_property
    def _holding(self) -> tuple[Constraint, ...]:
        """The constraints that hold anything: to lift another one would change nothing."""
        problem, free = self._after, self._movable(_OF_BUNDLES)
        holding = {
            each for each in _OF_BUNDLES if (self._movable(_OF_BUNDLES - {each}) != free).any()
        }
        found = {
            Constraint.RETURN: (problem.avoid >= 0).any(),
            Constraint.RECEIVER: (problem.is_counted & ~problem.is_receiving).any(),
            Constraint.LIMIT: np.isfinite(problem.most).any(),
            Constraint.TOPIC_CAP: problem.spread is not NO_SPREAD,
            Constraint.PLACE: not (problem.allowed.all() and problem.sharing.all()),
        }
        return tuple(each for each in Constraint if each in holding or found.get(each, False))

    def without(self, constraints: Sequence[Constraint]) -> BalanceProblem:
        """The problem once the plan is carried out, without some constraints."""
        key = tuple(constraints)
        if key not in self._problems:
            self._problems[key] = self._without(key)
        return self._problems[key]

    @cached_property
    def _problems(self) -> dict[tuple[Constraint, ...], BalanceProblem]:
        """Those that were needed so far: most brokers ask for the same."""
        return {}

    def _without(self, constraints: Sequence[Constraint]) -> BalanceProblem:
        problem, lifted = self._after, frozenset(constraints)
        problem = replace(problem, is_movable=self._movable(lifted))
        for each in constraints:
            if (lift := _LIFTS.get(each)) is not None:
                problem = lift(self, problem)
        return problem

    @cached_property
    def _after(self) -> BalanceProblem:
        problem = apply_moves(self.problem, self.relief.moves)
        is_movable = problem.is_movable.copy()
        is_movable[[move.bundle for move in self.relief.moves]] = False
        return replace(problem, is_movable=is_movable)

    def _movable(self, lifted: frozenset[Constraint]) -> Flags:
        if not lifted & _OF_BUNDLES:
            return self._after.is_movable
        context = self.context
        if Constraint.EXCLUDED in lifted:
            context = replace(context, excluded=frozenset())
        numbers = {broker: number for number, broker in enumerate(self.planner_input.brokers)}
        rest_s = 0.0 if Constraint.REST in lifted else self.rules.rest_s
        rows = Rows(self.view, context, numbers, self.planner_input.bundles, rest_s)
        found = rows.is_movable(is_waiting=Constraint.WAIT not in lifted)
        found[[move.bundle for move in self.relief.moves]] = False
        return found

    def bound_of(self, broker: int) -> float:
        """Max over mean usage that no placement can beat, of the brokers like this one.

        The smallest of the kinds that it carries.
        """
        kinds = list(range(len(self.problem.allowed)))
        if len(self.problem.allowed) > 1:
            carried = carried_of(self.problem)[:, broker]
            kinds = [int(each) for each in np.flatnonzero(carried)]
        return min((self._bound(each) for each in kinds), default=1.0)

    def _bound(self, kind: int) -> float:
        if kind not in self._bounds:
            self._bounds[kind] = imbalance_bound(self.problem, kind)
        return self._bounds[kind]

    @cached_property
    def _bounds(self) -> dict[int, float]:
        return {}

    # Words.

    def _text(self, constraint: Constraint, moves: list[Move]) -> Obstacle:
        return _TEXTS[constraint](self, moves)

    def bundle(self, move: Move) -> BundleView:
        """The bundle that a move would carry."""
        return self.planner_input.bundles[move.bundle]

    def rest(self, moves: list[Move]) -> Obstacle:
        """A rest period after a move that the balancer chose."""
        resting = [self.bundle(move) for move in moves]
        ends = {
            str(each.bundle): each.last_unloaded_s + self.rules.rest_s
            for each in resting
            if each.last_unloaded_s is not None
        }
        last = max(ends, key=lambda each: ends[each])
        return Obstacle(Reason.IN_GRACE, f"{last} {rest_text(self.view, ends[last])}")

    def stay_away(self, moves: list[Move]) -> Obstacle:
        """A bundle does not return to the broker that it left by a choice of the balancer."""
        ends = {
            str(each.bundle): self.context.left[each.bundle].at_s + self.rules.return_s
            for each in map(self.bundle, moves)
            if each.bundle in self.context.left
        }
        last = max(ends, key=lambda each: ends[each])
        where = next(
            self.planner_input.brokers[move.destination]
            for move in moves
            if str(self.bundle(move).bundle) == last
        )
        end = until_text(self.view, ends[last])
        text = f"{last} does not return to {where} {end}, loadBalancerPlannerReturnMinutes"
        return Obstacle(Reason.IN_GRACE, text)

    def wait(self, moves: list[Move]) -> Obstacle:
        """A bundle is on its way, or its owner has not reported it yet."""
        for each in map(self.bundle, moves):
            if self.view.is_busy(each.bundle):
                text = f"a move or a split of {each.bundle} is under way, until it ends"
                return Obstacle(Reason.MOVING, text)
        waiting = next(each for each in map(self.bundle, moves) if each.current is None)
        text = (
            f"{waiting.bundle} is not in a report yet, until the next one of "
            f"{waiting.owner} (loadBalancerReportUpdateMaxIntervalMinutes at the latest)"
        )
        return Obstacle(Reason.NOT_MEASURED, text)

    def receiver(self, moves: list[Move]) -> Obstacle:
        """A broker with room receives nothing for now."""
        names = [self.planner_input.brokers[move.destination] for move in moves]
        for name in names:
            if self.view.brokers[name].age_s > self.context.silent_s:
                text = (
                    f"{name} has room and receives nothing until it reports again, "
                    "loadBalancerBrokerLoadDataTTLInSeconds"
                )
                return Obstacle(Reason.STALE_REPORT, text)
        slow = next((each for each in names if each in self.context.ineligible), names[0])
        text = (
            f"{slow} has room and receives nothing until it is not slow any more, "
            "loadBalancerSlowBrokerDemotionScore"
        )
        return Obstacle(Reason.SLOW_BROKER, text)

    def limit(self, moves: list[Move]) -> Obstacle:
        """A receiver would exceed a limit."""
        name = self.planner_input.brokers[moves[0].destination]
        text = f"{name} would exceed a limit of loadBalancerBrokerLimits, until it carries less"
        return Obstacle(Reason.CAPACITY, text)

    def topic_cap(self, moves: list[Move]) -> Obstacle:
        """A receiver would have too many partitions of a topic."""
        name = self.planner_input.brokers[moves[0].destination]
        text = (
            f"{name} would have more partitions of a topic than "
            f"loadBalancerTopicPartitionsPerBroker={self.rules.topic_cap}, until it has fewer"
        )
        return Obstacle(Reason.TOPIC_SPREAD, text)

    def place(self, moves: list[Move]) -> Obstacle:
        """An isolation policy or an anti-affinity group says where a bundle may be."""
        constraints, moved = self.view.constraints, moves[0]
        bundle = self.bundle(moved).bundle
        name = self.planner_input.brokers[moved.destination]
        if (group := constraints.group_of.get(bundle.namespace)) is not None:
            text = f"the anti-affinity group {group} keeps {bundle} where it is, until it changes"
            return Obstacle(Reason.ANTI_AFFINITY, text)
        policy = constraints.policy_of(bundle.namespace) or constraints.reserved_by(name)
        if policy is None and constraints.isolation:
            policy = constraints.isolation[0]
        which = "the placement rules keep" if policy is None else f"policy {policy.name} keeps"
        text = f"{which} {bundle} off {name}, until it is changed"
        return Obstacle(Reason.ISOLATION, text)

    def excluded(self, moves: list[Move]) -> Obstacle:
        """A namespace is not balanced."""
        name = self.bundle(moves[0]).bundle.namespace
        text = f"{name} is in loadBalancerSheddingExcludedNamespaces, until it is taken out"
        return Obstacle(Reason.EXCLUDED, text)


def _let_return(_: Obstacles, problem: BalanceProblem) -> BalanceProblem:
    return replace(problem, avoid=np.full_like(problem.avoid, -1))


def _let_receive(_: Obstacles, problem: BalanceProblem) -> BalanceProblem:
    silent = ~problem.is_receiving & problem.is_counted
    allowed = problem.allowed | (silent & problem.sharing)
    return replace(problem, is_receiving=problem.is_counted, allowed=allowed)


def _let_exceed(_: Obstacles, problem: BalanceProblem) -> BalanceProblem:
    return replace(problem, most=np.full_like(problem.most, np.inf))


def _let_gather(_: Obstacles, problem: BalanceProblem) -> BalanceProblem:
    return replace(problem, spread=NO_SPREAD)


def _let_go(_: Obstacles, problem: BalanceProblem) -> BalanceProblem:
    everywhere = np.ones_like(problem.allowed)
    return replace(problem, allowed=everywhere, sharing=everywhere)


_LIFTS: Final[dict[Constraint, Callable[[Obstacles, BalanceProblem], BalanceProblem]]] = {
    Constraint.RETURN: _let_return,
    Constraint.RECEIVER: _let_receive,
    Constraint.LIMIT: _let_exceed,
    Constraint.TOPIC_CAP: _let_gather,
    Constraint.PLACE: _let_go,
}
_TEXTS: Final[dict[Constraint, Callable[[Obstacles, list[Move]], Obstacle]]] = {
    Constraint.REST: Obstacles.rest,
    Constraint.RETURN: Obstacles.stay_away,
    Constraint.WAIT: Obstacles.wait,
    Constraint.RECEIVER: Obstacles.receiver,
    Constraint.LIMIT: Obstacles.limit,
    Constraint.TOPIC_CAP: Obstacles.topic_cap,
    Constraint.PLACE: Obstacles.place,
    Constraint.EXCLUDED: Obstacles.excluded,
}
