"""The placement plan of a usual day, as the file that a leader judges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.strategies.balance.problem import Floats
from broker_ctl.core.strategies.balance.profile import HOURS, NOBODY, profile_placement
from broker_ctl.core.strategies.balance.profile_plan import Origin, plan_file
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.recommend.usual_day import DayOfBundle, UsualDay

_FEWEST_BROKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Placement:
    """A plan, and what it was made of.

    Attributes:
        moved_ratio: load that changes hands over all load.
        bundles: that are there.
        unprofiled: of them, those that stay where they are since hours of their day are not known.
    """

    file: PlanFile
    moved_ratio: float
    bundles: int
    unprofiled: int

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, without the moves."""
        file = self.file
        return {
            "cluster": file.cluster,
            "hash": file.hash,
            "from_ms": file.from_ms,
            "to_ms": file.to_ms,
            "bundles": self.bundles,
            "unprofiled": self.unprofiled,
            "moves": len(file.moves),
            "moved_ratio": self.moved_ratio,
            "worst_hour_before": max(file.before),
            "worst_hour_after": max(file.after),
        }


def placement_of(day: UsualDay, made_ms: int) -> Placement:
    """Who should have what.

    A bundle of which not all hours are known stays; it counts with the mean of those that are.

    Raises:
        PipelineError: too little is known, or there is nobody to move anything to.
    """
    _check(day)
    brokers = sorted(day.sizes)
    numbers = {broker: number for number, broker in enumerate(brokers)}
    load = np.array([_fill_hours(each.hours) for each in day.bundles])
    is_known = np.array([None not in each.hours for each in day.bundles])
    # What a broker has that is gone or drained is placed; who places it is the leader, at once.
    owner = np.array([numbers.get(each.owner or "", NOBODY) for each in day.bundles], np.int32)
    sizes = np.array([day.sizes[broker] for broker in brokers])
    placement = profile_placement(load, owner, sizes, is_movable=is_known)
    file = plan_file(
        placement,
        Origin(day.cluster, made_ms, day.from_ms, day.to_ms),
        [Bundle.parse(each.bundle) for each in day.bundles],
        brokers,
        load=load,
        owner=owner,
    )
    unprofiled = len(is_known) - int(is_known.sum())
    return Placement(file, placement.moved_ratio, len(day.bundles), unprofiled)


def _check(day: UsualDay) -> None:
    where = f"cluster {day.cluster}"
    known = _known_hours(day.bundles)
    if len(known) < HOURS:
        hours = ", ".join(map(str, known)) or "none"
        raise PipelineError(
            f"{where}: its daily profile knows {len(known)} of {HOURS} hours (UTC: {hours}), a plan"
            " needs them all: let it run for a day, then take in and profile its history again"
        )
    if len(day.sizes) < _FEWEST_BROKERS:
        raise PipelineError(
            f"{where}: {len(day.sizes)} brokers take bundles, a plan needs at least"
            f" {_FEWEST_BROKERS}"
        )


def _known_hours(bundles: Sequence[DayOfBundle]) -> list[int]:
    return [hour for hour in range(HOURS) if any(each.hours[hour] is not None for each in bundles)]


def _fill_hours(hours: Sequence[float | None]) -> "Floats":
    known = [each for each in hours if each is not None]
    mean = sum(known) / len(known) if known else 0.0
    return np.array([mean if each is None else each for each in hours])
