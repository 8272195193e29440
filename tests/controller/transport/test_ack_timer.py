"""How long brokers take to acknowledge, as the log reports it."""

import pytest

from broker_ctl.controller.transport.http import AckTimer


def test_a_burst_is_one_line_from_its_first_update_to_its_last_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "broker_ctl.controller.transport.http")
    timer = AckTimer(3)
    timer.add(40, 10.0)
    timer.add(2, 10.5)
    timer.finish(11.25)
    timer.add(1, 20.0)
    timer.finish(20.125)
    assert caplog.messages == [
        "broker 3 acknowledged 42 partition updates in 1.250 s",
        "broker 3 acknowledged 1 partition updates in 0.125 s",
    ]


def test_nothing_is_logged_where_no_update_was_acknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "broker_ctl.controller.transport.http")
    timer = AckTimer(3)
    timer.finish(1.0)
    timer.add(0, 2.0)
    timer.finish(3.0)
    assert caplog.messages == []
