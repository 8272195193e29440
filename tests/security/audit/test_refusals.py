"""Refusals beyond those that are listed: each of them is counted in a sum."""

import math
from pathlib import Path

from broker_ctl.codec import decode_object
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.security.audit.event import AuditEvent, EventKind
from broker_ctl.security.audit.log import (
    MAX_OF_ADDRESS,
    MAX_REFUSALS,
    MAX_SUMS,
    SUM_S,
    WINDOW_S,
    AuditLog,
    AuditRules,
    RefusalAggregator,
)
from tests.support.time.waiting import eventually


def refusal(address: str, at_ms: int = 1, status: str = "401", role: str = "") -> AuditEvent:
    return AuditEvent(
        kind=EventKind.REFUSAL, at_ms=at_ms, address=address, status=status, principal=role
    )


def test_a_number_of_refusals_is_listed_a_minute_and_of_an_address() -> None:
    refusals = RefusalAggregator()
    assert [refusals.passes("a", 5.0) for _ in range(MAX_OF_ADDRESS + 1)].count(True) == (
        MAX_OF_ADDRESS
    )
    others = [refusals.passes(f"b{number}", 6.0) for number in range(MAX_REFUSALS)]
    assert others.count(True) == MAX_REFUSALS - MAX_OF_ADDRESS
    assert refusals.passes("a", 5.0 + WINDOW_S)


def test_the_others_are_summed_up_by_address_role_and_status() -> None:
    refusals = RefusalAggregator()
    assert (len(refusals), refusals.due_s) == (0, math.inf)
    for at_ms in (1, 2, 3):
        refusals.add(refusal("a", at_ms), 10.0 + at_ms)
    refusals.add(refusal("a", 4, "403", "reader"), 14.0)
    assert refusals.due_s == 11.0 + SUM_S
    first, second = refusals.take()
    assert (first.count, first.since_ms, first.at_ms, first.address) == (3, 1, 3, "a")
    assert (second.count, second.principal, second.status) == (1, "reader", "403")
    assert (len(refusals), refusals.due_s) == (0, math.inf)


def test_no_number_of_addresses_fills_the_memory_and_none_is_left_out() -> None:
    refusals = RefusalAggregator()
    for number in range(MAX_SUMS + 500):
        refusals.add(refusal(f"a{number}"), 1.0)
    sums = refusals.take()
    assert len(sums) == MAX_SUMS + 1
    assert sum(each.count for each in sums) == MAX_SUMS + 500
    assert (sums[-1].address, sums[-1].count) == ("", 500)


@in_virtual_time
async def test_a_sum_is_written_soon_though_nothing_else_happens(
    tmp_path: Path,
) -> None:
    clock, file = LoopClock(), tmp_path / "audit.log"
    log = AuditLog(AuditRules(file), "b:1", clock)
    await log.start()
    for _ in range(MAX_OF_ADDRESS + 7):
        log.record(refusal("a"))
    began_s = clock.now_s()

    async def has_sum() -> bool:
        return b'"count":7' in file.read_bytes()

    await eventually(has_sum)
    assert clock.now_s() - began_s <= SUM_S + 1.0
    await log.close()
    kinds = [decode_object(line)["kind"] for line in file.read_bytes().splitlines()]
    assert kinds == ["start"] + ["refusal"] * (MAX_OF_ADDRESS + 1)


@in_virtual_time
async def test_refusals_that_a_full_queue_cannot_hold_are_summed_up(tmp_path: Path) -> None:
    clock, file = LoopClock(), tmp_path / "audit.log"
    log = AuditLog(AuditRules(file), "b:1", clock)
    await log.start()
    total = 3_000
    for number in range(total):
        # Each in a window of its own would be listed, had the queue room.
        log._refusals._began_s = -math.inf
        log.record(refusal(f"a{number % 40}"))
    await log.close()
    rows = [decode_object(line) for line in file.read_bytes().splitlines()][1:]
    assert log.lost == 0
    assert sum(row.get("count", 1) for row in rows) == total
