import pytest

from broker_ctl.core.model.steps import Steps, batched, finished


def counting(limit: int) -> Steps[list[int]]:
    seen: list[int] = []
    for number in range(limit):
        seen.append(number)
        yield
    return seen


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_steps_are_run_to_their_result(limit: int) -> None:
    assert finished(counting(limit)) == list(range(limit))


def test_an_error_within_steps_is_the_callers() -> None:
    def failing() -> Steps[int]:
        yield
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        finished(failing())


def test_batches_hold_everything_in_order() -> None:
    assert list(batched(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(batched([], 3)) == []
