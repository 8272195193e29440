"""Reading instruments in tests."""

from broker_ctl.instruments.kinds import Instrument


def value_of(instrument: Instrument, suffix: str = "", **labels: str) -> float:
    """The value of the one series with these labels."""
    (value,) = (
        sample.value
        for sample in instrument.samples()
        if sample.name == instrument.name + suffix and sample.labels == labels
    )
    return value
