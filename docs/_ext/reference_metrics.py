"""The metrics as a page, from the instruments."""

from collections.abc import Iterator
from typing import Final

from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Histogram, Instrument
from docs._ext.markdown import code, entry, escape

_UNITS: Final = {"ms": "ms", "seconds": "s", "bytes": "bytes", "percent": "%", "ratio": "ratio"}


def page() -> str:
    """By group, each with the labels that its series carry beside ``cluster``."""
    return "\n".join(_sections())


def _sections() -> Iterator[str]:
    for group in vars(Instruments()).values():
        title, _, more = (type(group).__doc__ or "").partition("\n")[0].rstrip(".").partition("; ")
        yield f"## {escape(title)}\n"
        yield f"{escape(more[:1].upper() + more[1:])}.\n" if more else ""
        instruments = [one for one in vars(group).values() if isinstance(one, Instrument)]
        yield from map(_entry, instruments)


def _entry(one: Instrument) -> str:
    meaning = escape(one.help)
    if isinstance(one, Histogram):
        meaning += f" Buckets: {', '.join(f'{bound:g}' for bound in one.bounds)}."
    labels = [*map(code, one.labels), *(code(f'{k}="{v}"') for k, v in one.constants.items())]
    unit = f"in {unit}" if (unit := unit_of(one.name)) else ""
    facts = (
        one.kind,
        unit,
        f"labels {', '.join(labels)}" if labels else "",
    )
    return entry(code(one.name), meaning, "; ".join(filter(None, facts)))


def unit_of(name: str) -> str:
    """The unit in which a name ends; empty for counts."""
    rate = "/s" if "_per_second" in name else ""
    return next((unit + rate for word in name.split("_")[::-1] if (unit := _UNITS.get(word))), "")
