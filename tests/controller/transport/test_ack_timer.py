"""How long brokers take to acknowledge, as the log tells it."""

import pytest

from broker_ctl.controller.transport.ack_timer import AckTimer


def test_a_burst_is_one_line_from_its_first_letter_to_its_last_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "broker_ctl.controller.transport.ack_timer")
    told = AckTimer(3)
    told.posted(40, 10.0)
    told.posted(2, 10.5)
    told.answered(11.25)
    told.posted(1, 20.0)
    told.answered(20.125)
    assert caplog.messages == [
        "broker 3 has acknowledged 42 instructions on replicas within 1.250 s",
        "broker 3 has acknowledged 1 instructions on replicas within 0.125 s",
    ]


def test_where_nothing_was_told_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "broker_ctl.controller.transport.ack_timer")
    told = AckTimer(3)
    told.answered(1.0)
    told.posted(0, 2.0)
    told.answered(3.0)
    assert caplog.messages == []
