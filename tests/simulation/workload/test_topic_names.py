"""Names that hash to a wanted position."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_ctl.core.model.names import RING_HIGH, RING_LOW, Topic, ring_hash
from broker_ctl.simulation.workload.workload import name_at

STEM = "persistent://tenant/ns/topic-7-"


@given(st.text(st.characters(codec="utf-8"), max_size=40), st.integers(RING_LOW, RING_HIGH))
@example("", RING_LOW)
@example(STEM, RING_HIGH)
def test_every_position_has_a_name_with_every_stem(stem: str, position: int) -> None:
    name = name_at(stem, position)
    assert ring_hash(name) == position
    assert name.startswith(stem)


def test_names_are_those_of_topics_and_always_the_same() -> None:
    name = name_at(STEM, 0x12345678)
    assert str(Topic.parse(name)) == name == name_at(STEM, 0x12345678)
    assert set(name.removeprefix(STEM)) <= set("01234567")


@pytest.mark.parametrize("position", [-1, RING_HIGH + 1])
def test_a_number_that_is_not_a_position_has_no_name(position: int) -> None:
    with pytest.raises(ValueError, match="0 to 2"):
        name_at(STEM, position)
