"""One sentence that says how the cluster is, and what needs an operator."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.console.pages.frame import Band, Row
from broker_ctl.console.render import counted, duration

# Rounding errors are not rounded up.
_NOTHING: Final = 1e-9


class Level(StrEnum):
    """How urgent a judgement is."""

    WELL = "well"
    BUSY = "busy"
    ATTENTION = "attention"
    DANGER = "danger"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A sentence with its urgency."""

    level: Level
    sentence: str


@dataclass(frozen=True, slots=True)
class Known:
    """What a judgement reads; None and empty: unknown, or not there.

    Attributes:
        cluster: the leader's view, as ``/control/v1/cluster``.
        status: of the daemon that was asked, as ``/control/v1/status``.
        unreachable: why a leader that there is cannot be asked; empty: there is none, or it can.
        is_paused: whether the balancer is paused.
    """

    cluster: Row | None
    status: Row
    drains: Sequence[Row] = ()
    controller: Row | None = None
    unreachable: str = ""
    is_paused: bool = False


def judge(known: Known, band: Band) -> Judgement:
    """The most urgent thing to know."""
    needs = needs_of(known)
    if needs:
        return needs[0]
    cluster = known.cluster
    assert cluster is not None, "a missing leader is among the needs"
    if moves := len(cluster["moves"]):
        return Judgement(Level.BUSY, f"{counted(moves, 'move')} in flight.")
    return _balance(cluster, band)


def needs_of(known: Known) -> list[Judgement]:
    """All that needs an operator, the most urgent first."""
    found = [*_of_leader(known), *_of_partitions(known.controller), *_of_drains(known.drains)]
    order = list(Level)
    return sorted(found, key=lambda each: -order.index(each.level))


def _of_leader(known: Known) -> Iterator[Judgement]:
    status, cluster = known.status, known.cluster
    if not status["is_ready"]:
        yield Judgement(Level.DANGER, f"This daemon is not ready: {status['reason']}.")
    if cluster is None:
        reason = "No leader can be asked: bundles stay where they are, and none is moved."
        if known.unreachable:
            reason = f"The leader cannot be asked from here: {known.unreachable}."
        yield Judgement(Level.DANGER, reason)
        return
    if lost := cluster["lost_brokers"]:
        yield Judgement(Level.DANGER, f"{counted(len(lost), 'broker')} lost: {', '.join(lost)}.")
    if cluster["is_full"]:
        text = "All brokers are beyond their limits: no load moves. Add brokers, or raise limits."
        yield Judgement(Level.DANGER, text)
    elif over := cluster["over_limits"]:
        names = ", ".join(row["broker"] for row in over)
        yield Judgement(Level.ATTENTION, f"{counted(len(over), 'broker')} beyond limits: {names}.")
    if offline := cluster["offline_bundles"]:
        eta_s = cluster["offline_eta_s"]
        rest = "" if eta_s is None else f"; the last one is placed in about {duration(eta_s)}"
        verb = "has" if offline == 1 else "have"
        text = f"{counted(offline, 'bundle')} {verb} no owner{rest}."
        yield Judgement(Level.DANGER, text)
    if cluster["paused"]:
        why = cluster["pause_reason"]
        text = f"Balancing is paused{': ' + why if why else ''}."
        yield Judgement(Level.ATTENTION, text)
    if cluster["dry_run"]:
        yield Judgement(Level.ATTENTION, "The balancer only shows its decisions (dry run).")


def _of_partitions(controller: Row | None) -> Iterator[Judgement]:
    if controller is None:
        return
    for key, level, text in (
        ("offline", Level.DANGER, "without a leader"),
        ("under_min_isr", Level.DANGER, "below the minimum of in-sync replicas"),
        ("under_replicated", Level.ATTENTION, "under-replicated"),
        ("rack_violations", Level.ATTENTION, "on too few racks"),
    ):
        if count := controller[key]:
            yield Judgement(level, f"{counted(count, 'partition')} {text}.")


def _of_drains(drains: Sequence[Row]) -> Iterator[Judgement]:
    for row in drains:
        if row["state"] == "draining":
            left = counted(row["bundles_left"], "bundle")
            eta_s = row.get("eta_s")
            rest = "" if eta_s is None else f", empty in about {duration(eta_s)}"
            yield Judgement(Level.BUSY, f"Draining {row['broker']}: {left} left{rest}.")
        elif row["state"] == "drained":
            text = f"{row['broker']} is drained: it is empty and receives no bundles."
            yield Judgement(Level.BUSY, text)


def _balance(cluster: Row, band: Band) -> Judgement:
    imbalance = cluster["usage_imbalance"]
    if imbalance is None:
        return Judgement(Level.BUSY, "The leader waits for the first load reports.")
    # On one broker nothing can be uneven.
    if imbalance <= band.high:
        text = f"Balanced: the fullest broker has {imbalance:.2f} times the mean usage."
        return Judgement(Level.WELL, f"{text} Nothing to do.")
    # Rounding must not contradict the sentence: up, and never to the band itself.
    shown = max(math.ceil(imbalance * 100 - _NOTHING) / 100, round(band.high, 2) + 0.01)
    text = f"Uneven: the fullest broker has {shown:.2f} times the mean usage"
    return Judgement(Level.BUSY, f"{text}, above the band of {band.high:.2f}.")
