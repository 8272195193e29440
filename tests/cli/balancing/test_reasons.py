"""Reasons in words."""

from broker_ctl.cli.balancing import reason_text
from broker_ctl.core.cluster.decisions import Reason
from tests.support.rules.families import for_each


@for_each("reason", list(Reason))
def test_every_reason_has_a_sentence_of_its_own(reason: Reason) -> None:
    sentence = reason_text(reason.value)
    assert " " in sentence
    assert "_" not in sentence
    assert [each for each in Reason if reason_text(each.value) == sentence] == [reason]


def test_the_reason_of_another_build_is_shown_in_its_words() -> None:
    assert reason_text("wrong_moon") == "wrong moon"
