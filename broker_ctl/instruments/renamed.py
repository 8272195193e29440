"""Metrics that were renamed: for one release, each is exposed under its earlier name as well."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_ctl.instruments.kinds import Instrument, Sample

_MS_PER_S: Final = 1000
# Far above the error of a conversion, such as 0.003 * 1000, and far below any bound's precision.
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class EarlierName:
    """The earlier name of a metric.

    Attributes:
        factor: multiplier from the current unit to that of the earlier name.
    """

    name: str
    factor: float = 1


RENAMED: Final[Mapping[str, EarlierName]] = MappingProxyType(
    {
        "broker_ctl_load_report_truncated_bundles": EarlierName(
            "broker_ctl_report_bundles_left_out"
        ),
        "broker_ctl_ownership_lost_total": EarlierName("broker_ctl_bundles_lost_total"),
        "broker_ctl_commands_total": EarlierName("broker_ctl_orders_total"),
        "broker_ctl_unload_destination_mismatch_total": EarlierName(
            "broker_ctl_destinations_ignored_total"
        ),
        "broker_ctl_store_round_trip_seconds": EarlierName(
            "broker_ctl_store_round_trip_ms", _MS_PER_S
        ),
        "broker_ctl_lease_remaining_seconds": EarlierName(
            "broker_ctl_lease_remaining_ms", _MS_PER_S
        ),
        "broker_ctl_session_timeout_seconds": EarlierName(
            "broker_ctl_session_timeout_ms", _MS_PER_S
        ),
        "broker_ctl_loop_lag_seconds": EarlierName("broker_ctl_loop_lag_ms", _MS_PER_S),
        "broker_ctl_controller_event_seconds": EarlierName(
            "broker_ctl_controller_event_ms", _MS_PER_S
        ),
        "broker_ctl_controller_acknowledge_seconds": EarlierName(
            "broker_ctl_controller_acknowledge_ms", _MS_PER_S
        ),
    }
)


def earlier_help(instrument: Instrument) -> str:
    """The help of a metric under its earlier name."""
    return f"Deprecated, use {instrument.name}. {instrument.help}"


def earlier_samples(
    instrument: Instrument, earlier: EarlierName, samples: Iterable[Sample]
) -> Iterator[Sample]:
    """The samples of a metric under its earlier name, in the earlier unit."""
    for sample in samples:
        suffix = sample.name.removeprefix(instrument.name)
        value, labels = sample.value, sample.labels
        if earlier.factor != 1:
            if suffix == "_bucket":
                labels = {**labels, "le": _bound(labels["le"], earlier.factor)}
            elif suffix != "_count":
                value = round(value * earlier.factor, _DIGITS)
        yield Sample(earlier.name + suffix, labels, value)


def _bound(text: str, factor: float) -> str:
    return text if text == "+Inf" else str(round(float(text) * factor, _DIGITS))
