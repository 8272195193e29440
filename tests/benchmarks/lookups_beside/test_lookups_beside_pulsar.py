"""What the comparison of lookups counts, by hand; the run itself needs a Pulsar broker."""

import asyncio
from typing import Any

import pytest

from tests.benchmarks.lookups.http_line import LOST
from tests.benchmarks.lookups_beside.cold_pass import Pass
from tests.benchmarks.lookups_beside.course import ratio


class Scripted:
    """A connection that answers each topic with the next of its answers, in a later turn."""

    def __init__(self, answers: dict[int, list[str]]) -> None:
        self.answers = answers
        self.asked: list[int] = []
        self.on_answer: Any = None

    def ask(self, number: int, due_s: float) -> None:
        self.asked.append(number)
        kind = self.answers[number].pop(0)
        asyncio.get_running_loop().call_soon(self.on_answer, self, kind, due_s)


async def passed(answers: dict[int, list[str]], lines: int) -> tuple[Pass, list[Scripted]]:
    one = Pass(list(answers))
    connections = [Scripted(answers) for _ in range(lines)]
    for each in connections:
        each.on_answer = one.handle_answer
        one.ask(each)
    async with asyncio.timeout(10):
        await one.all_owned
    return one, connections


async def test_every_topic_is_asked_until_its_owner_is_answered() -> None:
    answers = {3: ["connect"], 5: ["503", "redirect", "connect"], 8: ["connect"]}
    one, connections = await passed(answers, lines=2)
    assert not any(answers.values())
    assert sorted(number for each in connections for number in each.asked) == [3, 5, 5, 5, 8]
    assert len(one.took_s) == 3
    assert one.again == 2


async def test_a_topic_that_was_asked_again_took_as_long_as_all_its_answers() -> None:
    one, _ = await passed({5: ["503", "connect"], 6: ["connect"]}, lines=1)
    # Asked again after a pause that is far longer than an answer here.
    assert max(one.took_s) > 0.01 > min(one.took_s)


async def test_a_lost_connection_ends_the_pass() -> None:
    with pytest.raises(ConnectionResetError):
        await passed({5: [LOST]}, lines=1)


def test_ratios_are_ours_over_theirs_and_leave_out_what_is_nothing() -> None:
    cold = {"all_owned_s": 0.5, "p50_ms": 2.0, "p99_ms": 3.0, "asked_again": 7}
    ours = {"lookups_s": 30.0, "p99_ms": 2.0, "cold": cold}
    theirs = {"lookups_s": 10.0, "p99_ms": 4.0, "cold": cold | {"all_owned_s": 1.0, "p99_ms": 0.0}}
    assert ratio(ours, theirs) == {
        "lookups_s": 3.0,
        "p99_ms": 0.5,
        "cold_all_owned_s": 0.5,
        "cold_p50_ms": 1.0,
    }
