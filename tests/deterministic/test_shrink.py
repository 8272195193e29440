"""A failing schedule is shrunk to the steps that matter, and draws alike without the others."""

import logging
import math
from collections.abc import Iterator, Sequence

import pytest

from broker_ctl.coordination.session import SessionWatcher
from tests.deterministic.run import hush
from tests.deterministic.schedule import Schedule
from tests.deterministic.shrink import shrink
from tests.deterministic.world.draws import StepDraws
from tests.deterministic.world.wire import Coverage

HANG_S = 1_800
SEED = 3
# More than half of these schedules see authority without an end.
LOOKED_AT = range(16)
FEW = 8


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    hush()
    yield
    logging.disable(logging.NOTSET)


def test_a_step_draws_alike_whatever_others_have_drawn() -> None:
    draws = StepDraws(SEED)
    draws.begin_step(7)
    alone = [draws.random(), draws.randrange(1_000), draws.choice("abc")]
    draws.begin_step(6)
    draws.sample(range(100), 50)
    draws.end_step()
    draws.random()
    draws.begin_step(7)
    assert [draws.random(), draws.randrange(1_000), draws.choice("abc")] == alone
    draws.end_step()


def test_a_schedule_without_most_of_its_steps_takes_the_others_as_they_were() -> None:
    few = Schedule(SEED, Coverage(), only=range(12))
    fewer = Schedule(SEED, Coverage(), only=[2, 9])
    assert few.run().violations == fewer.run().violations == ()
    assert fewer.taken == {number: few.taken[number] for number in (2, 9)}


def first_with_authority_too_long() -> tuple[int, int]:
    """The first such schedule, and how many steps it has taken."""
    for seed in LOOKED_AT:
        whole = Schedule(seed, Coverage())
        if is_authority_too_long(whole.run().violations):
            return seed, len(whole.taken)
    pytest.fail(f"none of {LOOKED_AT} sees authority without an end")


def is_authority_too_long(violations: Sequence[str]) -> bool:
    return any(said.startswith("I1a") for said in violations)


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
def test_authority_without_an_end_is_shrunk_to_what_ends_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionWatcher, "deadline_s", property(lambda _: math.inf))
    seed, steps = first_with_authority_too_long()
    shrunk = shrink(seed, most_runs=200)
    assert shrunk is not None
    assert is_authority_too_long(shrunk.violations)
    assert len(shrunk.steps) <= FEW < steps
    again = Schedule(seed, Coverage(), only=list(shrunk.steps))
    assert again.run().violations == shrunk.violations
