"""Executes a plan in the simulated cluster, decision by decision, in the plan's order."""

from collections.abc import Iterable
from typing import assert_never

from broker_ctl.core.cluster.decisions import Action, Assign, Merge, Split, Transfer, Unload
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import SplitRules
from broker_ctl.core.strategies.splitting.algorithms import (
    specified_positions_divide,
    traffic_equally_divide,
)
from broker_ctl.core.strategies.splitting.catalog import SPLITTING
from broker_ctl.core.strategies.splitting.hot_topics import dominant_position
from broker_ctl.core.strategies.splitting.request import SplitRequest, TopicRate
from broker_ctl.errors import InvariantBroken
from broker_ctl.simulation.model.pace import Pace
from broker_ctl.simulation.replay.board import Board
from broker_ctl.simulation.replay.cluster import Cluster
from broker_ctl.simulation.replay.record import Cause, Moved, Record, Reshaped

_MINUTE_S = 60.0


class SimulatedExecutor:
    """The executor of the simulated leader, which reads the state of the cluster itself.

    Args:
        splitting: what is too much for one bundle, for algorithms that ask.
    """

    def __init__(
        self,
        cluster: Cluster,
        board: Board,
        record: Record,
        pace: Pace,
        splitting: SplitRules | None,
    ) -> None:
        self._cluster = cluster
        self._board = board
        self._record = record
        self._pace = pace
        self._splitting = splitting or SplitRules()

    def perform(self, decisions: Iterable[Action], minute: int, at_s: float) -> list[Bundle]:
        """All of them, ``at_s`` seconds into the minute; answers with what splits have made."""
        parts: list[Bundle] = []
        for decision in decisions:
            match decision:
                case Transfer():
                    self._transfer(decision, minute, at_s)
                case Split():
                    parts += self._split(decision, minute, at_s)
                case Merge():
                    self._merge(decision, minute, at_s)
                case Assign() | Unload():
                    raise InvariantBroken(f"no cycle has this: {decision.sentence}")
                case _:
                    assert_never(decision)
        return parts

    def assign(self, assign: Assign, former: str, cause: Cause, minute: int) -> None:
        """What has lost its broker goes to another; its clients have noticed by now."""
        place = self._place_of(assign.bundle)
        wait_s = self._pace.move_s if cause is Cause.DRAIN else self._pace.reconnect_s
        self._cluster.give(place, assign.destination, 0.0, wait_s)
        self._note(minute, assign, place, former, cause)

    def _transfer(self, transfer: Transfer, minute: int, at_s: float) -> None:
        place, pace = self._place_of(transfer.bundle), self._pace
        brokers = self._cluster.brokers
        cause = Cause.LOAD
        if brokers[transfer.source].is_draining:
            cause = Cause.DRAIN
        elif brokers[transfer.destination].is_new(minute):
            cause = Cause.REFILL
        self._cluster.give(place, transfer.destination, at_s, at_s + pace.move_s)
        ended_s = minute * _MINUTE_S + at_s + pace.unload_s
        if transfer.reason.is_own:
            self._board.on_move(transfer.bundle, ended_s, transfer.load_vector.throughput_bytes)
        self._note(minute, transfer, place, transfer.source, cause)

    def _split(self, split: Split, minute: int, at_s: float) -> list[Bundle]:
        place = self._place_of(split.bundle)
        points = self._points(split, place)
        if not points:
            return []
        children = self._cluster.split(place, points)
        self._board.on_split(place, split.bundle, children, minute * _MINUTE_S + at_s)
        self._record.splits.append(Reshaped(minute, split.bundles, tuple(children)))
        return children

    def _points(self, split: Split, place: int) -> tuple[int, ...]:
        """Where the owner cuts, which knows the topics."""
        cut = SPLITTING.find(split.algorithm)
        if split.boundaries and cut is not specified_positions_divide:
            return split.boundaries
        rates = tuple(
            TopicRate(position, messages, octets)
            for position, messages, octets in self._cluster.topics_of(place)
        )
        if cut is traffic_equally_divide and dominant_position(rates) is not None:
            return ()
        hashes = tuple(topic.position for topic in rates)
        return cut(
            SplitRequest(split.bundle.range, hashes, split.boundaries, rates, self._splitting)
        )

    def _merge(self, merge: Merge, minute: int, at_s: float) -> None:
        place = self._place_of(merge.left)
        whole = self._cluster.merge(place, at_s)
        self._board.on_merge(place, minute * _MINUTE_S + at_s)
        self._record.merges.append(Reshaped(minute, merge.bundles, (whole,)))

    def _place_of(self, bundle: Bundle) -> int:
        place = self._cluster.place_of(bundle)
        if place is None:
            raise InvariantBroken(f"{bundle} is not a bundle of the simulated cluster")
        return place

    def _note(
        self, minute: int, done: Assign | Transfer, place: int, source: str, cause: Cause
    ) -> None:
        bytes_s = self._cluster.bytes_of(place)
        self._record.moves.append(
            Moved(minute, done.bundle, source, done.destination, bytes_s, done.reason, cause)
        )
