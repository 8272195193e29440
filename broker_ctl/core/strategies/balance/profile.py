"""Where bundles should live by the daily profile: one placement for all hours of a day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.balance.problem import Flags, Indices

# Where bundles should live by the daily profile: one placement for all hours of a day.
#
# A bundle's day resembles the previous one. Following only the current load moves bundles at noon,
# and others back at night. If bundles that are busy at different hours share a broker, the cluster
# stays balanced all day and nothing has to move (docs: planner-sources, load-history-sources).
#
# The largest bundle is placed first. Each goes to the broker whose fullest hour is the least
# full, but stays on its current broker if that is nearly as good. So a bundle moves only for a
# gain above the price, and no bundle moves if the whole plan would not gain that.
#
# All input is plain arrays; bundles and brokers are numbers, in the order of their ids. The same
# input gives the same placement.


HOURS: Final = 24
NOBODY: Final = -1
_NOTHING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """What a move by the profile must bring; all in mean usages of the hour.

    Attributes:
        price: a bundle stays if its broker's fullest hour exceeds that of the best broker by at
            most this.
        kept: a bundle also stays if its broker's fullest hour is at most this.
    """

    price: float = 0.01
    kept: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class ProfilePlacement:
    """The planned owner of each bundle.

    Attributes:
        owner: broker of each bundle, shape (bundles,).
        moves: bundles that change hands, the largest first.
        before, after: largest over mean usage by hour, shape (hours,); in ``before`` what nobody
            owned counts where it was placed.
        moved_ratio: load that changes hands over all load.
    """

    owner: Indices
    moves: tuple[int, ...]
    before: Floats
    after: Floats
    moved_ratio: float


def profile_placement(
    load: Floats,
    owner: Indices,
    sizes: Floats,
    rules: ProfileRules | None = None,
    *,
    is_movable: Flags | None = None,
) -> ProfilePlacement:
    """Place by the profile; nothing but what nobody owns moves where that would not help.

    Neither the largest nor the 99th percentile of ``after`` is above that of ``before``.

    Args:
        load: of each bundle by hour of the day, in any one unit, shape (bundles, hours).
        owner: broker of each bundle, or `NOBODY`, shape (bundles,).
        sizes: capacity of each broker in any one unit, above 0, shape (brokers,); or by hour of
            the day, shape (brokers, hours): a machine may have less to give at night.
        rules: None: the defaults.
        is_movable: bundles that may change hands, shape (bundles,); None: all. What nobody owns
            is placed in any case.

    Raises:
        ValueError: arrays that do not fit each other, or no brokers.
    """
    sizes = np.broadcast_to(sizes.reshape(len(sizes), -1), (len(sizes), load.shape[-1]))
    _check(load, owner, sizes)
    wanted = rules or ProfileRules()
    owned = owner != NOBODY
    stays = np.zeros(len(owner), bool) if is_movable is None else owned & ~is_movable
    filling = _Filling.of(load, owner, sizes)
    start = filling.place(owned, wanted)
    found = filling.place(stays, wanted)
    before = imbalance_by_hour(load, start, sizes)
    after = imbalance_by_hour(load, found, sizes)
    if not _is_better(after, before, wanted.price):
        found, after = start, before
    changed = found != owner
    total = float(load.sum())
    return ProfilePlacement(
        owner=found,
        moves=tuple(filling.order[changed[filling.order]].tolist()),
        before=before,
        after=after,
        moved_ratio=float(load[changed].sum()) / total if total > 0 else 0.0,
    )


def imbalance_by_hour(load: Floats, owner: Indices, sizes: Floats) -> Floats:
    """Largest over mean usage, shape (hours,); 1 where there is no load.

    ``sizes`` as of `profile_placement`.
    """
    hours = load.T
    on = np.array([np.bincount(owner, hour, minlength=len(sizes)) for hour in hours])
    usage = on.reshape(len(hours), len(sizes)) / sizes.reshape(len(sizes), -1).T
    mean = usage.mean(axis=1)
    ratios: Floats = np.divide(usage.max(axis=1), mean, out=np.ones_like(mean), where=mean > 0)
    return ratios


@dataclass(frozen=True, slots=True, eq=False)
class _Filling:
    """What is to be placed.

    Attributes:
        load: part of all load of the hour, shape (bundles, hours).
        owner: as it is now.
        inverse: all capacity of the hour over that of each broker, shape (hours, brokers).
        order: the bundles, the one with the largest hour first.
    """

    load: Floats
    owner: Indices
    inverse: Floats
    order: Indices

    @classmethod
    def of(cls, load: Floats, owner: Indices, sizes: Floats) -> "_Filling":
        total = load.sum(axis=0)
        scaled: Floats = np.divide(load, total, out=np.zeros(load.shape), where=total > 0)
        order = np.argsort(-scaled.max(axis=1, initial=0.0), kind="stable").astype(np.int32)
        return cls(scaled, owner, (sizes.sum(axis=0) / sizes).T.copy(), order)

    def place(self, stays: Flags, rules: ProfileRules) -> Indices:
        """Broker of each bundle; what stays takes its room before all others."""
        # Hours by brokers: so the fullest hour of all brokers is found along the rows.
        usage = np.zeros(self.inverse.shape)
        found = self.owner.copy()
        for bundle in self.order[stays[self.order]].tolist():
            usage[:, found[bundle]] += self.load[bundle] * self.inverse[:, found[bundle]]
        for bundle in self.order[~stays[self.order]].tolist():
            added = self.load[bundle][:, None] * self.inverse
            full = (usage + added).max(axis=0)
            home, best = int(self.owner[bundle]), int(full.argmin())
            limit = max(rules.kept, float(full[best]) + rules.price)
            broker = home if home != NOBODY and full[home] <= limit else best
            found[bundle] = broker
            usage[:, broker] += added[:, broker]
        return found


def _is_better(after: Floats, before: Floats, price: float) -> bool:
    """Whether the largest hour is, by more than the price, and the 99th percentile no worse."""
    ours, theirs = (np.percentile(each, [99, 100]) for each in (after, before))
    return bool(ours[1] < theirs[1] - price - _NOTHING and ours[0] <= theirs[0] + _NOTHING)


def _check(load: Floats, owner: Indices, sizes: Floats) -> None:
    if load.ndim != 2 or not load.shape[1] or owner.shape != load.shape[:1] or not len(sizes):
        raise ValueError(f"load {load.shape}, owner {owner.shape}, sizes {sizes.shape} do not fit")
    if not (np.isfinite(load).all() and (load >= 0).all() and (sizes > 0).all()):
        raise ValueError("loads are finite and at least 0, sizes above 0")
    if len(owner) and not (owner.min() >= NOBODY and owner.max() < len(sizes)):
        raise ValueError(f"an owner is none of {len(sizes)} brokers")


# A placement by the daily profile as a file for the leader.


class Origin(NamedTuple):
    """Where a profile comes from; see `PlanFile`."""

    cluster: str
    made_ms: int
    from_ms: int
    to_ms: int


def plan_file(
    placement: ProfilePlacement,
    origin: Origin,
    bundles: Sequence[Bundle],
    brokers: Sequence[str],
    *,
    load: Floats,
    owner: Indices,
) -> PlanFile:
    """The moves by name; the leader places bundles without an owner at once.

    Args:
        placement: of `profile_placement`.
        origin: of the profile.
        bundles: in the order of the arrays.
        brokers: likewise.
        load: as `profile_placement` was given it.
        owner: likewise.
    """
    moves = tuple(
        PlannedMove(
            bundles[place],
            brokers[owner[place]],
            brokers[placement.owner[place]],
            float(load[place].mean()),
        )
        for place in placement.moves
        if owner[place] != NOBODY
    )
    before, after = placement.before.tolist(), placement.after.tolist()
    return PlanFile(*origin, moves, tuple(before), tuple(after))


# The moves of a plan from the daily profile, as decisions on a view.


_WHY = "by the daily profile"


def relocations(view: ClusterView, receivers: Mapping[Bundle, str]) -> tuple[Transfer, ...]:
    """Transfers of what is not where it should be, in the order of ``receivers``.

    A bundle that the view does not know, or that has no owner in the view, is left out,
    and so is one whose receiver is not there.
    """
    return tuple(
        Transfer(
            bundle=bundle,
            source=source,
            destination=destination,
            reason=Reason.PROFILE,
            detail=_WHY,
            load_vector=view.bundles[bundle].load_vector,
            source_before=view.brokers[source].expected,
            destination_before=view.brokers[destination].expected,
        )
        for bundle, destination in receivers.items()
        if bundle in view.bundles
        and (source := view.bundles[bundle].owner or "") in view.brokers
        and destination in view.brokers
        and source != destination
    )
