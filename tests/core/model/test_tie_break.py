from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.counting import rendezvous_choice, splitmix64

names = st.lists(st.text("abc123", min_size=1), min_size=1, unique=True)


def test_splitmix64_gives_the_published_sequence() -> None:
    # State 1234567, advanced by the golden gamma: the first outputs of the reference code.
    gamma = 0x9E3779B97F4A7C15
    outputs = [splitmix64(1234567 + step * gamma) for step in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(), st.text(), names)
def test_the_order_of_the_options_does_not_matter(seed: int, key: str, options: list[str]) -> None:
    shuffled = sorted(options, reverse=True)
    assert rendezvous_choice(seed, key, options) == rendezvous_choice(seed, key, shuffled)


@given(st.integers(), st.text(), names)
def test_a_loser_that_leaves_changes_nothing(seed: int, key: str, options: list[str]) -> None:
    winner = rendezvous_choice(seed, key, options)
    assert winner in options
    for loser in set(options) - {winner}:
        assert rendezvous_choice(seed, key, set(options) - {loser}) == winner


@pytest.mark.parametrize("by", ["seed", "key"])
def test_every_option_wins_its_share(by: str) -> None:
    options = [f"broker-{number}" for number in range(4)]
    wins = Counter(
        rendezvous_choice(turn if by == "seed" else 0, f"key-{turn if by == 'key' else 0}", options)
        for turn in range(4000)
    )
    assert all(900 < wins[option] < 1100 for option in options)
