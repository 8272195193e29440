"""Lists of replicas that are refused."""

import pytest

from broker_ctl.core.partitions.reassigning import fault_of, fault_of_min_isr


@pytest.mark.parametrize(
    ("replicas", "fault"),
    [
        ((2, 1, 3), None),
        ((), "names no broker"),
        ((1, -1), "names -1, which no broker can be"),
        ((1, 2, 1, 2, 3), "names 1, 2 more than once"),
        ((1, 7, 8), "names 7, 8: no such broker lives, only 1, 2, 3"),
    ],
)
def test_the_fault_of_a_list_is_named(replicas: tuple[int, ...], fault: str | None) -> None:
    assert fault_of(replicas, {3, 1, 2}) == fault


def test_without_a_broker_every_list_is_wrong() -> None:
    assert fault_of((1,), ()) == "names 1: no such broker lives, there is none"


@pytest.mark.parametrize(
    ("min_isr", "fault"),
    [
        (1, None),
        (2, None),
        (3, "has 2 replicas, fewer than its min ISR of 3: nothing could be committed"),
    ],
)
def test_a_list_shorter_than_its_min_isr_is_refused_with_the_reason(
    min_isr: int, fault: str | None
) -> None:
    assert fault_of_min_isr(min_isr, (1, 2)) == fault
