"""Bursts that come back in the same minutes of every hour: jobs on the hour, or every half hour.

An average hides them, and a reaction moves bundles while they last, and others once they are over.
A bundle that changes lately has its course recorded, in slots of five minutes. If it is far above
its usual load in the same slots of the last two hours, or three, these slots become further
resources of the planner: it places bundles so that the brokers are even during the bursts as well,
once, instead of every hour (docs: balance-strategy).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import BurstRules
from broker_ctl.core.strategies.balance.demands import Demands

if TYPE_CHECKING:
    from broker_ctl.core.cluster.columns import Floats
    from broker_ctl.core.strategies.balance.problem import BalanceProblem

SLOT_S: Final = 300.0
SLOTS: Final = 12
_HOURS: Final = 3
# A bundle that has not changed for hours is not followed any more.
_LEAST_SWINGS: Final = 0.25


class Course(NamedTuple):
    """The load of one bundle by slots of five minutes.

    Attributes:
        slot: number of the current slot.
        total, readings: sum and number of its readings.
        means: of the slots before it, the newest last; three hours at most.
    """

    slot: int
    total: float
    readings: int
    means: tuple[float, ...] = ()

    def after(self, slot: int, value: float) -> "Course":
        """The course after one more reading; a slot without any interrupts it."""
        if slot == self.slot:
            return Course(slot, self.total + value, self.readings + 1, self.means)
        if slot != self.slot + 1:
            return Course(slot, value, 1)
        means = (*self.means, self.total / self.readings)[-_HOURS * SLOTS :]
        return Course(slot, value, 1, means)


Courses = Mapping[Bundle, Course]


def followed(
    courses: Courses, view: ClusterView, demands: Demands, rules: BurstRules
) -> dict[Bundle, Course]:
    """The courses after one more reading of every bundle that changes lately."""
    if not rules.is_enabled:
        return {}
    slot = int(view.taken_at_s // SLOT_S)
    found: dict[Bundle, Course] = {}
    for bundle in demands.table.swinging(_LEAST_SWINGS):
        bundle_view, course = view.bundles[bundle], courses.get(bundle)
        if bundle_view.current is not None:
            value = bundle_view.load_vector.usage_ratio or bundle_view.current.throughput
            course = Course(slot, value, 1) if course is None else course.after(slot, value)
        if course is not None:
            found[bundle] = course
    return found


def courses_to_row(courses: Courses) -> dict[str, Any]:
    """Plain JSON values."""
    return {str(bundle): list(course) for bundle, course in courses.items()}


def courses_of_row(row: Mapping[str, Any]) -> dict[Bundle, Course]:
    """What ``courses_to_row`` wrote."""
    return {
        Bundle.parse(text): Course(int(slot), float(total), int(readings), tuple(means))
        for text, (slot, total, readings, means) in row.items()
    }


def shape_of(course: Course, rules: BurstRules) -> "Floats | None":
    """Load in each slot of an hour over the mean of the hour; None: nothing comes back in it."""
    import numpy as np

    hours = len(course.means) // SLOTS
    if hours < 2:
        return None
    loads = np.array(course.means[-hours * SLOTS :], np.float64).reshape(hours, SLOTS)
    usual = np.median(loads, axis=1, keepdims=True)
    if not (usual > 0).all():
        return None
    ratio = loads / usual
    is_burst = ratio.min(axis=0) >= rules.ratio
    if not is_burst.any():
        return None
    shape = np.where(is_burst, ratio.mean(axis=0), 1.0)
    # The first column is the slot an hour before the current one.
    shape = np.roll(shape, course.slot % SLOTS)
    found: Floats = shape / shape.mean()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class PlannedBursts:
    """A problem that is also even during bursts.

    Attributes:
        bundles: how many of them burst.
        slots: how many slots of the hour are planned for.
    """

    problem: "BalanceProblem"
    bundles: int
    slots: int

    @property
    def note(self) -> str:
        """What was planned for, for people; empty: nothing."""
        if not self.slots:
            return ""
        minutes = self.slots * SLOT_S / 60
        return f"bursts of {self.bundles} bundles in {minutes:.0f} minutes of every hour count"


def planned_for(
    problem: "BalanceProblem",
    bundles: Sequence[Bundle],
    demands: Demands,
    courses: Courses,
    rules: BurstRules,
) -> PlannedBursts:
    """The problem with the demands of bursts as further resources."""
    import numpy as np

    shapes = {
        number: shape
        for number, bundle in enumerate(bundles)
        if (course := courses.get(bundle)) is not None
        and (shape := shape_of(course, rules)) is not None
    }
    if not shapes:
        return PlannedBursts(problem, 0, 0)
    factors = np.ones((len(bundles), SLOTS))
    factors[list(shapes)] = np.array(list(shapes.values()))
    steady = demands.steady_of(bundles)
    steady = np.where(np.isnan(steady), problem.demand, steady)
    slots = _slots(factors, steady, rules)
    if not slots:
        return PlannedBursts(problem, len(shapes), 0)
    # What the brokers have between the bursts counts too.
    columns = [factors[:, slot] for slot in slots] + [factors.min(axis=1)]
    return PlannedBursts(_widened(problem, steady, columns), len(shapes), len(slots))


def _slots(factors: "Floats", steady: "Floats", rules: BurstRules) -> list[int]:
    """The slots with the largest bursts."""
    import numpy as np

    total = np.maximum(steady.sum(axis=0), 1e-12)
    extra = np.maximum(factors - 1.0, 0.0)
    share = np.array([(extra[:, [slot]] * steady).sum(axis=0) / total for slot in range(SLOTS)])
    largest = share.max(axis=1)
    order = np.argsort(-largest, kind="stable")[: rules.most_slots]
    return [int(slot) for slot in order if largest[slot] >= rules.least_ratio]


def _widened(
    problem: "BalanceProblem", steady: "Floats", columns: Sequence["Floats"]
) -> "BalanceProblem":
    """More resources: of each column, demands, and capacities that give the same mean usage."""
    import numpy as np

    now = np.maximum(problem.demand.sum(axis=0) + problem.base.sum(axis=0), 1e-12)
    demand, capacity, base = [problem.demand], [problem.capacity], [problem.base]
    for factor in columns:
        then = steady * factor[:, None]
        scale = (then.sum(axis=0) + problem.base.sum(axis=0)) / now
        demand.append(then)
        capacity.append(problem.capacity * np.maximum(scale, 1e-12))
        base.append(problem.base)
    return replace(
        problem,
        demand=np.concatenate(demand, axis=1),
        capacity=np.concatenate(capacity, axis=1),
        base=np.concatenate(base, axis=1),
    )
