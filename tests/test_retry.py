"""Retries: what is retried, how long the pauses are, and what ends them."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from statistics import mean
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BrokerCtlError,
    ConnectionLoss,
    DataPlaneRefused,
    NoNode,
    SessionExpired,
    StoreClosed,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.retry import Backoff, is_any, is_undecided, retry
from tests.support.rules import retries

ALWAYS_A_SECOND = Backoff(first_s=1.0, factor=1.0, max_s=1.0)


class Highest(Random):
    """Draws the upper bound."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """An operation that fails with each of these, and then answers."""
    left = iter(errors)

    async def operation() -> str:
        if (error := next(left, None)) is not None:
            raise error
        return "answer"

    return operation


async def times_of_attempts(seed: int, failures: int) -> list[float]:
    began_s = asyncio.get_running_loop().time()
    times: list[float] = []

    async def operation() -> None:
        times.append(asyncio.get_running_loop().time() - began_s)
        if len(times) <= failures:
            raise ConnectionLoss("lost")

    await retry(operation, "read", rng=Random(seed))
    return times


# The policy.


@given(
    first_s=st.floats(0.001, 10),
    factor=st.floats(1, 10),
    max_s=st.floats(0.001, 60),
    failures=st.integers(1, 10_000),
    seed=st.integers(),
)
def test_a_pause_is_between_nothing_and_a_ceiling_that_never_shrinks(
    first_s: float, factor: float, max_s: float, failures: int, seed: int
) -> None:
    backoff = Backoff(first_s, factor, max_s)
    assert 0 <= backoff.delay_s(failures, Random(seed)) <= backoff.ceiling_s(failures) <= max_s
    assert backoff.ceiling_s(failures) <= backoff.ceiling_s(failures + 1)


def test_the_ceiling_grows_by_the_factor_up_to_the_longest_pause() -> None:
    backoff = Backoff(first_s=0.1, factor=3.0, max_s=2.0)
    ceilings = [backoff.ceiling_s(failures) for failures in range(1, 6)]
    assert ceilings == pytest.approx([0.1, 0.3, 0.9, 2.0, 2.0])


def test_pauses_are_spread_evenly_below_the_ceiling() -> None:
    rng = Random(7)
    delays = [ALWAYS_A_SECOND.delay_s(1, rng) for _ in range(10_000)]
    assert mean(delays) == pytest.approx(0.5, abs=0.02)
    for tenth in range(10):
        share = sum(tenth <= 10 * delay < tenth + 1 for delay in delays) / len(delays)
        assert share == pytest.approx(0.1, abs=0.02)


def test_all_chance_comes_from_the_given_rng() -> None:
    draws = [[Backoff().delay_s(n, rng) for n in range(1, 9)] for rng in (Random(3), Random(3))]
    assert draws[0] == draws[1]


# What is retried.


@in_virtual_time
async def test_an_operation_is_called_until_it_answers() -> None:
    operation = failing(ConnectionLoss("a"), ConnectionLoss("b"))
    assert await retry(operation, "read", rng=Random(1)) == "answer"


@pytest.mark.parametrize(
    "error",
    [
        Ambiguous("a write without an answer"),
        AuthorityLost("can be retried, but not by asking the store again"),
        NoNode("/a"),
        SessionExpired("gone"),
        StoreClosed("closed"),
        ValueError("a bug"),
    ],
)
@in_virtual_time
async def test_an_error_that_a_retry_cannot_help_is_raised_at_once(error: Exception) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises(type(error)):
        await retry(failing(error), "read", rng=Random(1))
    assert loop.time() == began_s


@in_virtual_time
async def test_an_undecided_write_is_retried_where_the_operation_reads_first() -> None:
    operation = failing(Ambiguous("?"), ConnectionLoss("lost"))
    assert await retry(operation, "write", rng=Random(1), judge=is_undecided) == "answer"


@in_virtual_time
async def test_a_class_of_errors_is_retried_where_it_is_named() -> None:
    operation = failing(DataPlaneRefused("busy"))
    assert await retry(operation, "ask", rng=Random(1), judge=is_any(DataPlaneRefused)) == "answer"
    with pytest.raises(NoNode):
        await retry(failing(NoNode("/a")), "ask", rng=Random(1), judge=is_any(DataPlaneRefused))


@in_virtual_time
async def test_a_bug_is_not_retried_whatever_the_judge_says() -> None:
    with pytest.raises(ValueError, match="bug"):
        await retry(failing(ValueError("bug")), "ask", rng=Random(1), judge=lambda _: True)


# What ends it.


@in_virtual_time
async def test_the_last_attempt_raises_its_error() -> None:
    errors = [ConnectionLoss(str(number)) for number in range(1, 9)]
    with pytest.raises(ConnectionLoss, match="3"):
        await retry(failing(*errors), "read", rng=Random(1), attempts=3)


@in_virtual_time
async def test_no_attempt_begins_after_the_limit_and_one_begins_at_it() -> None:
    attempts: list[float] = []
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def operation() -> None:
        attempts.append(loop.time() - began_s)
        raise ConnectionLoss("lost")

    with pytest.raises(ConnectionLoss):
        await retry(operation, "read", rng=Highest(), backoff=ALWAYS_A_SECOND, limit_s=2.5)
    assert attempts == pytest.approx([0, 1, 2, 2.5])


@in_virtual_time
async def test_a_cancelled_task_ends_at_once_in_a_pause_and_in_an_attempt() -> None:
    loop = asyncio.get_running_loop()
    endless = Backoff(first_s=3600, factor=1, max_s=3600)

    async def hang() -> None:
        await loop.create_future()

    for operation in (hang, failing(*[ConnectionLoss("lost")] * 9)):
        work = retry(operation, "read", rng=Highest(), backoff=endless, judge=lambda _: True)
        task = loop.create_task(work)
        began_s = loop.time()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert loop.time() - began_s == pytest.approx(1)


# Brokers that lost the same server.


@given(seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=2, unique=True))
def test_two_brokers_do_not_wait_in_step(seeds: list[int]) -> None:
    @in_virtual_time
    async def run() -> None:
        first, second = [await times_of_attempts(seed, failures=6) for seed in seeds]
        assert first[0] == pytest.approx(second[0])
        apart = [abs(a - b) > 1e-6 for a, b in zip(first[1:], second[1:], strict=True)]
        # Chance brings two attempts together once in some 100,000; in step they are all together.
        assert apart.count(False) <= 1

    run()


# The log.


@in_virtual_time
async def test_a_long_outage_has_a_short_log(caplog: pytest.LogCaptureFixture) -> None:
    errors = [*[ConnectionLoss("no server")] * 9, ConnectionLoss("refused"), ConnectionLoss()]
    with caplog.at_level(logging.INFO, "broker_ctl.retry"):
        await retry(failing(*errors), "cannot read /a", rng=Highest(), backoff=ALWAYS_A_SECOND)
    # The first, second, fourth and eighth failure, and each with another reason.
    assert caplog.messages == [
        *["cannot read /a: no server; retrying in 1.0 s"] * 4,
        "cannot read /a: refused; retrying in 1.0 s",
        "cannot read /a: ConnectionLoss; retrying in 1.0 s",
    ]


def test_an_endless_outage_does_not_overflow() -> None:
    assert Backoff(first_s=1, factor=10, max_s=math.inf).ceiling_s(10**6) < math.inf


def test_what_is_judged_by_class_says_nothing_of_others() -> None:
    judge = is_any(NoNode)
    assert judge(NoNode("/a"))
    assert not judge(BrokerCtlError("any"))


# No room writes a retry by hand.

ROOT: Final = Path(__file__).parents[1]
# Loops that catch errors and pause, and what they are instead.
NOT_RETRIES: Final[Mapping[str, str]] = {
    "broker_ctl/attach/metadata_source.py:_compare": "looks again whether it lasts",
    "broker_ctl/attach/metadata_source.py:watch": "a poll",
    "broker_ctl/attach/projection/projection.py:_keep_reading": "a poll",
    "broker_ctl/balancer/monitoring/bundle_data_store.py:run": "a schedule",
    "broker_ctl/broker/ownership/dataplane_watch.py:run": "a poll, which counts silence",
    "broker_ctl/cli/rollout_driver.py:_ask": "asks one broker after the other for one person",
    "broker_ctl/cli/runtime/progress.py:poll_until": "a poll on behalf of one person",
    "broker_ctl/controller/transport/http.py:run": "a queue; it pauses after a bug",
    "broker_ctl/controller/transport/zk_queue.py:_keep_checking": "a poll",
    "broker_ctl/daemon/lifecycle/serving.py:run": "a schedule",
    "broker_ctl/lab/replication/fetchers.py:run": "reconnects; pauses are of a Backoff",
    "broker_ctl/lab/embedded/daemons.py:wait_ready": "a poll",
    "broker_ctl/lab/embedded/ensemble.py:_supervise_server": "restarts a process",
    "broker_ctl/retry.py:retry": "the one",
    "broker_ctl/store/cached_values.py:_until_first": "reads again; pauses are of a Backoff",
    "broker_ctl/store/zookeeper/session.py:_connect": "tries servers; pauses are of a Backoff",
    "broker_ctl/lab/memory_store/session.py:_run": "a server in memory, without a herd",
}


def test_no_room_writes_a_retry_by_hand() -> None:
    found = {
        name
        for path in sorted(ROOT.glob("broker_ctl/**/*.py"))
        for name in retries.by_hand(path.relative_to(ROOT), path.read_text())
    }
    assert found - NOT_RETRIES.keys() == set(), "use broker_ctl.retry, or say what it is"
    assert NOT_RETRIES.keys() - found == set(), "these exceptions are needed no more"


BY_HAND: Final = """
async def ask():
    while True:
        try:
            return await store.get()
        except StoreError:
            {pause}
"""


@pytest.mark.parametrize(
    ("source", "is_by_hand"),
    [
        (BY_HAND.format(pause="await asyncio.sleep(_RETRY_S)"), True),
        (BY_HAND.format(pause="log.info('again')\n        await clock.sleep(1)"), True),
        (BY_HAND.replace("while True", "for _ in range(3)").format(pause="await sleep(1)"), True),
        (BY_HAND.format(pause="await asyncio.sleep(0)"), False),
        (BY_HAND.format(pause="raise"), False),
        ("async def poll():\n    while not done():\n        await asyncio.sleep(1)\n", False),
        (
            "async def f():\n    while True:\n        async def g():\n            await sleep(1)\n",
            False,
        ),
    ],
)
def test_a_retry_by_hand_is_found(source: str, is_by_hand: bool) -> None:
    assert bool(list(retries.by_hand(Path("broker_ctl/x.py"), source))) is is_by_hand
