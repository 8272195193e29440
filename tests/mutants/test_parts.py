"""The catalogue in parts: a week of them has each planted break once."""

import pytest

from tests.mutants.__main__ import part_of

DAY_S = 86_400


def test_the_days_of_any_week_are_all_parts() -> None:
    for first in range(7):
        week = [part_of("today", (first + day) * DAY_S) for day in range(7)]
        assert sorted(week) == [(part, 7) for part in range(1, 8)]


def test_the_parts_of_a_catalogue_have_each_of_it_once() -> None:
    catalogue = list(range(100))
    parts = [part_of(f"{number}/7") for number in range(1, 8)]
    assert sorted(one for part, of in parts for one in catalogue[part - 1 :: of]) == catalogue


@pytest.mark.parametrize("text", ["0/7", "8/7", "1", "tomorrow"])
def test_what_is_not_a_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        part_of(text)
