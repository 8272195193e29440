"""One sentence that says how the cluster is, and what needs an operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker_ctl.console.pages.frame import LoadBand, Row
from broker_ctl.console.render import counted, duration
from broker_ctl.core.machines.session import SessionState

# The state of a daemon that cannot be asked is none of these.
_WITHOUT_SESSION: Final = frozenset(SessionState) - {SessionState.CONNECTED}


class JudgementLevel(StrEnum):
    """How urgent a judgement is."""

    WELL = "well"
    BUSY = "busy"
    ATTENTION = "attention"
    DANGER = "danger"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A sentence with its urgency."""

    level: JudgementLevel
    sentence: str


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """What a judgement reads; None and empty: unknown, or not there.

    Attributes:
        cluster: the leader's view, as ``/control/v1/cluster``.
        status: of the daemon that was asked, as ``/control/v1/status``.
        unreachable: why a leader that there is cannot be asked; empty: there is none, or it can.
        is_paused: whether the balancer is paused.
        zookeeper: ``host:port,...`` of the servers of the daemon that was asked; empty: none.
    """

    cluster: Row | None
    status: Row
    drains: Sequence[Row] = ()
    controller: Row | None = None
    unreachable: str = ""
    is_paused: bool = False
    zookeeper: str = ""

    @property
    def lacks_session(self) -> bool:
        """Whether ZooKeeper is away for the daemon that was asked, which so cannot write there."""
        return bool(self.zookeeper) and self.status["session"]["state"] in _WITHOUT_SESSION


def judge(known: KnownFacts, band: LoadBand) -> Judgement:
    """The most urgent thing to know."""
    needs = needs_of(known)
    if needs:
        return needs[0]
    cluster = known.cluster
    assert cluster is not None, "a missing leader is among the needs"
    if moves := len(cluster["moves"]):
        return Judgement(JudgementLevel.BUSY, f"{counted(moves, 'move')} in flight.")
    return _balance(cluster, band)


def needs_of(known: KnownFacts) -> list[Judgement]:
    """All that needs an operator, the most urgent first."""
    found = [
        *_of_daemon(known),
        *_of_leader(known),
        *_of_partitions(known.controller),
        *_of_drains(known.drains),
    ]
    order = list(JudgementLevel)
    return sorted(found, key=lambda each: -order.index(each.level))


def _of_daemon(known: KnownFacts) -> Iterator[Judgement]:
    status = known.status
    if not status["is_ready"]:
        yield Judgement(JudgementLevel.DANGER, f"This daemon is not ready: {status['reason']}.")
    if known.lacks_session:
        text = (
            f"The ZooKeeper session of {status['broker']} is {status['session']['state']}. Next: "
            f"broker-ctl zookeeper status {known.zookeeper}"
        )
        yield Judgement(JudgementLevel.DANGER, text)


def _of_leader(known: KnownFacts) -> Iterator[Judgement]:
    cluster = known.cluster
    if cluster is None:
        reason = "No leader can be asked: bundles stay where they are, and none is moved."
        if known.unreachable:
            reason = f"The leader cannot be asked from here: {known.unreachable}."
        yield Judgement(JudgementLevel.DANGER, reason)
        return
    if lost := cluster["lost_brokers"]:
        yield Judgement(
            JudgementLevel.DANGER, f"{counted(len(lost), 'broker')} lost: {', '.join(lost)}."
        )
    if cluster["is_full"]:
        text = "All brokers are beyond their limits: no load moves. Add brokers, or raise limits."
        yield Judgement(JudgementLevel.DANGER, text)
    elif over := cluster["over_limits"]:
        names = ", ".join(row["broker"] for row in over)
        yield Judgement(
            JudgementLevel.ATTENTION, f"{counted(len(over), 'broker')} beyond limits: {names}."
        )
    if offline := cluster["offline_bundles"]:
        eta_s = cluster["offline_eta_s"]
        rest = "" if eta_s is None else f"; the last one is placed in about {duration(eta_s)}"
        verb = "has" if offline == 1 else "have"
        text = f"{counted(offline, 'bundle')} {verb} no owner{rest}."
        yield Judgement(JudgementLevel.DANGER, text)
    if cluster["paused"]:
        why = cluster["pause_reason"]
        text = f"Balancing is paused{': ' + why if why else ''}."
        yield Judgement(JudgementLevel.ATTENTION, text)
    if cluster["dry_run"]:
        yield Judgement(
            JudgementLevel.ATTENTION, "The balancer only shows its decisions (dry run)."
        )


def _of_partitions(controller: Row | None) -> Iterator[Judgement]:
    if controller is None:
        return
    for key, level, text in (
        ("offline", JudgementLevel.DANGER, "without a leader"),
        ("under_min_isr", JudgementLevel.DANGER, "below the minimum of in-sync replicas"),
        ("under_replicated", JudgementLevel.ATTENTION, "under-replicated"),
        ("rack_violations", JudgementLevel.ATTENTION, "on too few racks"),
    ):
        if count := controller[key]:
            yield Judgement(level, f"{counted(count, 'partition')} {text}.")


def _of_drains(drains: Sequence[Row]) -> Iterator[Judgement]:
    for row in drains:
        if row["state"] == "draining":
            left = counted(row["bundles_left"], "bundle")
            eta_s = row.get("eta_s")
            rest = "" if eta_s is None else f", empty in about {duration(eta_s)}"
            yield Judgement(JudgementLevel.BUSY, f"Draining {row['broker']}: {left} left{rest}.")
        elif row["state"] == "drained":
            text = f"{row['broker']} is drained: it is empty and receives no bundles."
            yield Judgement(JudgementLevel.BUSY, text)


def _balance(cluster: Row, band: LoadBand) -> Judgement:
    imbalance = cluster["usage_imbalance"]
    if imbalance is None:
        return Judgement(JudgementLevel.BUSY, "The leader waits for the first load reports.")
    # On one broker nothing can be uneven.
    if imbalance <= band.high:
        text = f"Balanced: the fullest broker has {imbalance:.2f} times the mean usage."
        return Judgement(JudgementLevel.WELL, f"{text} Nothing to do.")
    # Rounding must not contradict the sentence.
    shown = max(round(imbalance, 2), round(band.high, 2) + 0.01)
    text = f"Uneven: the fullest broker has {shown:.2f} times the mean usage"
    return Judgement(JudgementLevel.ATTENTION, f"{text}, above the band of {band.high:.2f}.")
