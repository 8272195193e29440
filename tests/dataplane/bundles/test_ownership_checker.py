"""The checker finds each planted fault, and no other."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.dataplane.bundles.serve_log import (
    FileServeLog,
    OwnershipVerdict,
    ServeEvent,
    judge,
    merge_logs,
    read_events,
)

TICK_NS = 100_000_000
TICK_S = 0.1
HASHES = frozenset(range(4))


def act(
    tick: float, token: int, hashes: frozenset[int] | set[int] = HASHES, broker: str = ""
) -> ServeEvent:
    return ServeEvent(int(tick * TICK_NS), broker or f"b{token}", token, tuple(sorted(hashes)))


def verdict(acts: list[ServeEvent], end: float | None = None) -> OwnershipVerdict:
    end_ns = None if end is None else int(end * TICK_NS)
    return judge(sorted(acts, key=lambda a: a.t_ns), TICK_S, HASHES, end_ns)


def test_one_owner_that_never_stops_is_fine() -> None:
    found = verdict([act(tick, 1) for tick in range(50)])
    assert found == OwnershipVerdict(
        owners_ok=True, double_served=0, unserved_s=0.0, acts=200, faults=()
    )


def test_a_handover_is_not_a_fault_and_its_gap_is_measured() -> None:
    acts = [act(tick, 1) for tick in range(20)] + [act(tick, 2) for tick in range(24, 50)]
    found = verdict(acts)
    assert found.owners_ok
    assert found.double_served == 0
    assert found.unserved_s == pytest.approx(0.4)


def test_an_act_under_an_old_token_is_double_serving() -> None:
    acts = [act(tick, 2) for tick in range(50)] + [act(20.5, 1, {3})]
    found = verdict(acts)
    assert not found.owners_ok
    assert found.double_served == 1
    assert found.faults == ("hash 0x00000003 acted under token 1 on b1 after token 2 on b2",)


def test_interleaved_tokens_are_double_serving() -> None:
    acts = [act(tick, 1 + tick % 2) for tick in range(50)]
    assert verdict(acts).double_served == len(HASHES)


def test_one_token_on_two_brokers_is_double_serving() -> None:
    acts = [act(tick, 1) for tick in range(50)] + [act(9.5, 1, {2}, "impostor")]
    assert verdict(acts).double_served == 1


def test_a_hash_that_is_served_no_more_at_the_end_is_a_fault() -> None:
    acts = [act(tick, 1, HASHES - {1}) for tick in range(50)] + [act(t, 1, {1}) for t in range(30)]
    found = verdict(acts)
    assert not found.owners_ok
    assert found.double_served == 0
    assert found.unserved_s == pytest.approx(1.9)
    assert found.faults == ("hash 0x00000001 was not served in the last 2.0 s",)


def test_a_hash_that_was_never_served_is_a_fault() -> None:
    found = verdict([act(tick, 1, HASHES - {1}) for tick in range(50)])
    assert not found.owners_ok
    assert found.faults == ("hash 0x00000001 was never served",)


def test_the_time_before_the_first_act_is_not_a_gap() -> None:
    assert verdict([act(tick, 1) for tick in range(1000, 1010)]).unserved_s == 0


def test_no_acts_at_all_prove_nothing() -> None:
    found = verdict([])
    assert not found.owners_ok
    assert len(found.faults) == len(HASHES)


def test_what_is_not_expected_is_judged_for_double_serving_only() -> None:
    acts = [act(tick, 1) for tick in range(50)] + [act(3, 1, {99})]
    assert verdict(acts).owners_ok
    assert not verdict([*acts, act(4, 0, {99})]).owners_ok


def test_after_the_end_only_double_serving_counts() -> None:
    acts = [act(tick, 1) for tick in range(50)]
    # Brokers that stop one after the other leave a long tail, which is not a fault.
    tail = [act(tick, 1, {0}) for tick in range(50, 90)]
    assert not verdict(acts + tail).owners_ok
    assert verdict(acts + tail, end=49).owners_ok
    assert verdict([*acts, *tail, act(91, 0, {0})], end=49).double_served == 1


def test_an_act_after_the_end_does_not_prove_service_before_it() -> None:
    others = [act(tick, 1, HASHES - {1}) for tick in range(50)]
    late = [act(tick, 1, {1}) for tick in range(50, 90)]
    found = verdict(others + late, end=49)
    assert found.faults == ("hash 0x00000001 was never served",)
    early = [act(tick, 1, {1}) for tick in range(30)]
    found = verdict(others + early + late, end=49)
    assert found.faults == ("hash 0x00000001 was not served in the last 2.0 s",)
    assert found.unserved_s == pytest.approx(1.9)


@given(
    owners=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    pause=st.integers(0, 9),
    ghost=st.none() | st.tuples(st.floats(0, 1), st.sampled_from(sorted(HASHES))),
)
def test_planted_faults_are_found_and_no_others(
    owners: list[int], pause: int, ghost: tuple[float, int] | None
) -> None:
    """Successive owners serve some ticks each; a ghost acts once under a token before them all."""
    acts: list[ServeEvent] = []
    tick = 0
    for token, ticks in enumerate(owners, 1):
        acts += [act(tick + i, token) for i in range(ticks)]
        tick += ticks + pause
    gaps = pause if len(owners) > 1 else 0
    last = acts[-1].t_ns / TICK_NS
    if ghost is not None:
        share, position = ghost
        # Never at the time of another act: their order would be undefined.
        acts.append(act(int(share * last) + 0.5, 0, {position}))
    found = judge(sorted(acts, key=lambda a: a.t_ns), TICK_S, HASHES, int(last * TICK_NS))
    assert found.double_served == (ghost is not None)
    assert found.owners_ok == (ghost is None)
    # The ghost's one act may cut the gap of its hash, never those of the other three.
    assert found.unserved_s == pytest.approx(gaps * TICK_S, abs=1e-6)


def test_minutes_of_three_brokers_are_judged_in_seconds(tmp_path: Path) -> None:
    """60 s of 3 brokers with 250 topics and 10 ticks a second, over the files of a torn run."""
    paths = [tmp_path / f"b{i}" for i in range(3)]
    for index, path in enumerate(paths):
        log = FileServeLog(path, 1 << 30)
        for tick in range(600):
            for token in (10 * index + 1, 10 * index + 2):
                log.record(
                    act(tick, token, frozenset(range(token * 1000, token * 1000 + 42)), path.name)
                )
        log.close()
        with path.open("ab") as file:
            file.write(b'{"t":6000')
    expected = [
        p
        for i in range(3)
        for t in (1, 2)
        for p in range((10 * i + t) * 1000, (10 * i + t) * 1000 + 42)
    ]
    start_s = time.process_time()
    found = judge(merge_logs(map(read_events, paths)), TICK_S, expected)
    took_s = time.process_time() - start_s
    assert (found.owners_ok, found.unserved_s, found.acts) == (True, 0.0, 600 * 252)
    assert took_s < 20, "far beyond the second or so that it takes"
