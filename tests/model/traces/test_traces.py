"""What whole daemons commit under faults are steps of the model, with all of their guards."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from broker_ctl.coordination.election import Leadership
from broker_ctl.coordination.locks import Lock, Locks
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Operation, Result
from tests.deterministic.judges.observed_ensembles import ObservedEnsemble
from tests.deterministic.run import hush
from tests.deterministic.schedule import Schedule
from tests.deterministic.world.wire import Coverage
from tests.model.traces.steps import Trace, Transaction, guards_of_the_model

HANG_S = 1_800
SEED = 10

Judged = Callable[[], tuple[Trace, list[str]]]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judged]:
    """Runs one schedule, and judges each transaction."""
    trace, wrong = Trace(), list[str]()
    commit, end = ObservedEnsemble._commit, ObservedEnsemble.end

    def judge(
        self: ObservedEnsemble, operations: Sequence[Operation], session_id: int
    ) -> tuple[Result, ...]:
        results = commit(self, operations, session_id)
        if not self._is_ending and (said := trace.judge(Transaction(operations, session_id))):
            wrong.append(said)
        return results

    def expire(self: ObservedEnsemble, session_id: int) -> None:
        end(self, session_id)
        trace.expire(session_id)

    def run() -> tuple[Trace, list[str]]:
        Schedule(SEED, Coverage()).run()
        return trace, wrong

    monkeypatch.setattr(ObservedEnsemble, "_commit", judge)
    monkeypatch.setattr(ObservedEnsemble, "end", expire)
    hush()
    yield run
    logging.disable(logging.NOTSET)


def test_the_guards_of_the_model_are_read_from_it() -> None:
    guards = guards_of_the_model()
    assert guards["acquire"] == {"GENERATION", "RING", "FREE"}
    assert guards["release"] == {"EPOCH", "RECORD", "MINE"}
    assert guards["delete_namespace"] == {"GENERATION", "RING", "UNOWNED"}


@pytest.mark.timeout(HANG_S)
def test_each_transaction_of_a_schedule_is_a_step_of_the_model(judged: Judged) -> None:
    trace, wrong = judged()
    assert wrong == []
    seen = {step for step, count in trace.steps.items() if count}
    assert {"acquire", "begin_move", "elect", "expire", "receive", "release", "split"} <= seen


@pytest.mark.timeout(HANG_S)
def test_an_acquisition_that_does_not_check_the_ring_is_found_without_a_race(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = Locks.acquire

    async def unchecked(
        self: Locks,
        path: str,
        data: bytes,
        on_lost: Callable[[Lock], None],
        guards: Sequence[Operation] = (),
        *rest: Any,
    ) -> Lock:
        kept = [op for op in guards if paths.local_policies_namespace(op.path) is None]
        return await acquire(self, path, data, on_lost, kept, *rest)

    monkeypatch.setattr(Locks, "acquire", unchecked)
    _, wrong = judged()
    assert any("acquire without RING" in said for said in wrong)


@pytest.mark.timeout(HANG_S)
def test_a_leader_that_does_not_check_its_epoch_is_found_without_a_race(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Leadership, "guard", Check("/"))
    _, wrong = judged()
    assert any("begin_move without EPOCH" in said for said in wrong)
