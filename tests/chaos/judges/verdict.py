"""What the shared log and the history prove together, when all is over."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from broker_ctl.dataplane.bundles.serve_log import ServeEvent, judge
from tests.chaos.judges.replay import Reign, Replay
from tests.chaos.judges.wall_clock import WallClock

# The leader dates a transaction in whole milliseconds, when it takes the request.
_CLOCK_MS: Final = 20
_MAX_OF_A_KIND: Final = 8


def double_served(acts: Sequence[ServeEvent]) -> Iterator[str]:
    """I1b: no hash acted under a lower token after a higher one, nor under one on two brokers."""
    for fault in judge(acts, tick_s=1.0, expected=()).faults:
        yield f"I1b: {fault}"


def wrongly_refused(
    refused: Sequence[ServeEvent], replay: Replay, clock: WallClock
) -> Iterator[str]:
    """I1b: tokens grow with owners, so nobody is refused before another one has owned the hash."""
    for act in refused:
        t_ms = clock.wall_ms(act.t_ns) + _CLOCK_MS
        for position in act.hashes:
            if not any(
                reign.token > act.token
                and reign.begin_ms <= t_ms
                and position in reign.bundle.range
                for reign in replay.reigns
            ):
                who = f"{act.broker} was refused for 0x{position:08x} under {act.token}"
                yield f"I1b: {who}, and nobody has owned it under a higher token"


def unowned_tokens(acts: Sequence[ServeEvent], replay: Replay) -> Iterator[str]:
    """I2: each token is the czxid of a node that this broker owned, with this hash in it."""
    reigns = _by_token(replay.reigns)
    for act in acts:
        for position in act.hashes:
            if not any(
                reign.broker_id == act.broker and position in reign.bundle.range
                for reign in reigns.get(act.token, ())
            ):
                who = f"{act.broker} acted for 0x{position:08x}"
                yield f"I2: {who} under token {act.token}, which it was never given"


def acts_past_the_lease(
    acts: Sequence[ServeEvent], replay: Replay, clock: WallClock, forced: Collection[int]
) -> Iterator[str]:
    """I1a: a broker that starts an act owns the hash in that moment, by whatever node.

    ``forced`` are the sessions that were closed behind their owner's back: no lease can show it.
    """
    by_broker: dict[str, list[Reign]] = defaultdict(list)
    for reign in replay.reigns:
        by_broker[reign.broker_id].append(reign)
    for act in acts:
        t_ms = clock.wall_ms(act.t_ns)
        standing = [
            reign
            for reign in by_broker[act.broker]
            if reign.session in forced or _stood(reign, t_ms)
        ]
        for position in act.hashes:
            if not any(position in reign.bundle.range for reign in standing):
                who = f"{act.broker} acted for 0x{position:08x} at {t_ms} without owning it"
                yield f"I1a: {who}; {_nearest(by_broker[act.broker], position, t_ms)}"


def early_takeovers(replay: Replay, grace_ms: int) -> Iterator[str]:
    """I7: bundles that another broker got within the grace after an expiry had ended them.

    An owner whose session ended before it was registered in it has none, nor does one at a broker
    whose own session is younger than that end.
    """
    ended: dict[object, Reign] = {}
    for reign in replay.reigns:
        before = ended.get(reign.bundle)
        ended[reign.bundle] = reign
        if before is None or not before.had_grace or before.end_ms is None:
            continue
        is_early = reign.begin_ms - before.end_ms < grace_ms - _CLOCK_MS
        is_older = replay.begins.get(reign.session, reign.begin_ms) < before.end_ms
        if is_early and is_older and reign.broker_id != before.broker_id:
            yield (
                f"I7: {reign.broker_id} took {reign.bundle} {reign.begin_ms - before.end_ms} ms"
                f" after the session of {before.broker_id} had ended"
            )


def late_recoveries(recoveries: Iterable[tuple[str, float]], bound_s: float) -> Iterator[str]:
    """I6: after a fault all is served again within the bound."""
    for kind, recovered_s in recoveries:
        if recovered_s > bound_s:
            yield f"I6: after {kind} it took {recovered_s:.1f} s until all was served"


def some(complaints: Iterable[str]) -> list[str]:
    """The first few."""
    return list(islice(complaints, _MAX_OF_A_KIND))


def _stood(reign: Reign, t_ms: int) -> bool:
    end_ms = reign.end_ms
    return reign.begin_ms - _CLOCK_MS <= t_ms and (end_ms is None or t_ms <= end_ms + _CLOCK_MS)


def _nearest(reigns: Sequence[Reign], position: int, t_ms: int) -> str:
    """By how much an act missed: a race, a late clock and a lost session look different."""
    of_hash = [reign for reign in reigns if position in reign.bundle.range]
    if not of_hash:
        return "it never did"
    said = [
        f"it had {-past} ms before" if past < 0 else f"it did {past} ms later"
        for past in _around([one for r in of_hash for one in (r.begin_ms, r.end_ms)], t_ms)
    ]
    return " and ".join(said)


def _around(times_ms: Sequence[int | None], t_ms: int) -> list[int]:
    """The last time before, and the first after, as differences."""
    apart = [one - t_ms for one in times_ms if one is not None]
    before, after = [one for one in apart if one < 0], [one for one in apart if one >= 0]
    return [*sorted(before)[-1:], *sorted(after)[:1]]


def _by_token(reigns: Sequence[Reign]) -> dict[int, list[Reign]]:
    found: dict[int, list[Reign]] = defaultdict(list)
    for reign in reigns:
        found[reign.token].append(reign)
    return found
