"""Checks from the acts of all brokers that every topic was served, by one owner at a time."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.dataplane.bundles.serve_log import ServeEvent

# A tick may be late on a busy machine: a hash counts as served for this many ticks after an act.
_ALIVE_TICKS: Final = 10
_MAX_FAULTS: Final = 10
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the acts of all brokers.

    Attributes:
        owners_ok: whether no hash was double served, and each expected hash was served at the end.
        double_served: number of hashes with an act under a lower token after one under a higher
            token, or with acts under one token on two brokers.
        unserved_s: the longest time, beyond one tick, without an act of an expected hash, from its
            first act to the end.
        acts: number of single acts that were judged.
        faults: the first few faults, in words.
    """

    owners_ok: bool
    double_served: int
    unserved_s: float
    acts: int
    faults: tuple[str, ...]


@dataclass(slots=True)
class _Served:
    """The state of one hash so far."""

    token: int
    broker: str
    last_ns: int
    gap_ns: int = 0


def judge(
    acts: Iterable[ServeEvent],
    tick_s: float,
    expected: Collection[int],
    end_ns: int | None = None,
) -> Verdict:
    """Judge acts that are in order of time (`serve_log.merge_logs`), in one pass.

    Args:
        acts: the acts of all brokers.
        tick_s: how often a served topic acts.
        expected: the hashes with traffic throughout the run; others are judged for double serving
            only.
        end_ns: end of the run; later acts are judged for double serving only. None: the last act.
    """
    stories: dict[int, _Served] = {}
    doubled: dict[int, str] = {}
    count = last_ns = 0
    for act in acts:
        count += len(act.hashes)
        last_ns = act.t_ns
        _follow(act, stories, doubled, end_ns)
    end_ns = last_ns if end_ns is None else end_ns
    faults = list(doubled.values())
    longest_ns = 0
    for position in sorted(expected):
        story = stories.get(position)
        if story is None:
            faults.append(f"hash 0x{position:08x} was never served")
            continue
        tail_ns = end_ns - story.last_ns
        if tail_ns > _ALIVE_TICKS * tick_s * _NS:
            faults.append(f"hash 0x{position:08x} was not served in the last {_s(tail_ns)} s")
        longest_ns = max(longest_ns, story.gap_ns, tail_ns)
    return Verdict(
        owners_ok=not faults,
        double_served=len(doubled),
        unserved_s=max(0.0, longest_ns / _NS - tick_s),
        acts=count,
        faults=tuple(faults[:_MAX_FAULTS]),
    )


def _follow(
    act: ServeEvent, stories: dict[int, _Served], doubled: dict[int, str], end_ns: int | None
) -> None:
    """Apply one act to the state of each of its hashes."""
    now_ns, token, broker = act.t_ns, act.token, act.broker
    is_over = end_ns is not None and now_ns > end_ns
    for position in act.hashes:
        story = stories.get(position)
        if story is None:
            if not is_over:
                stories[position] = _Served(token, broker, now_ns)
            continue
        if token < story.token or (token == story.token and broker != story.broker):
            doubled.setdefault(
                position,
                f"hash 0x{position:08x} acted under token {token} on {broker}"
                f" after token {story.token} on {story.broker}",
            )
        else:
            story.token, story.broker = token, broker
        if not is_over:
            story.gap_ns = max(story.gap_ns, now_ns - story.last_ns)
            story.last_ns = now_ns


def _s(ns: int) -> str:
    return f"{ns / _NS:.1f}"
