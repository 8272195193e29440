"""The specification holds, and each of its guards is needed: without it there is a violation."""

import pytest

from tests.model.checker import Run, check, missing_tools
from tests.model.runs import COUNTEREXAMPLES, WHOLE

HANG_S = 1_800

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(HANG_S),
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools() or "all tools are there"),
]


@pytest.mark.parametrize("run", WHOLE, ids=lambda run: run.name)
def test_the_whole_model_holds_within_its_bounds(run: Run) -> None:
    found = check(run)
    assert list(found.story) == []
    assert found.states > 10_000


@pytest.mark.parametrize("run", COUNTEREXAMPLES, ids=lambda run: run.without)
def test_the_model_is_violated_without(run: Run) -> None:
    assert check(run).is_violated
