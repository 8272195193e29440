"""Durations in seconds."""

from broker_ctl.settings.root import Settings


def test_milliseconds_and_minutes_are_given_in_seconds() -> None:
    values = {"replicaPollMillis": 250, "loadBalancerSheddingIntervalMinutes": 0.5}
    settings = Settings().with_values(values, {})
    assert settings.partitions.poll_s == 0.25
    assert settings.shedding.interval_s == 30.0
