"""A recommendation as part of a ``broker.conf``: lines to set, and comments that say why."""

import textwrap
from collections.abc import Iterator
from typing import Final

from broker_ctl.core.model.printable import printable
from broker_ctl.core.strategies.catalog import BALANCE
from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.pipeline.recommend.recommendation import Recommendation
from broker_ctl.pipeline.recommend.rule import RECORDED, Verdict, describe_days
from broker_ctl.settings.properties import line_of

_WIDTH: Final = 100
_MOST_OTHERS: Final = 10


def fragment_of(found: Recommendation) -> str:
    """The text; without a line to set where nothing is supported."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Recommendation) -> Iterator[str]:
    baseline, count = _describe(found.baseline), found.candidates
    yield from _comment(
        f"broker-ctl pipeline recommend: {len(found.supported)} of {count}"
        f" candidate{'s' if count != 1 else ''} supported, held against {baseline} on"
        f" {', '.join(found.traces)}."
    )
    if any(trace.startswith(RECORDED) for trace in found.traces):
        yield from _comment(
            "Recorded traffic was only once, and seeds are not days: pairs differ in who had what"
            " at the start. So one candidate was chosen on the first days, and judged on the later."
        )
    for best in found.supported[:1]:
        yield "#"
        yield from _evidence(best)
        entries = found.entries(best)
        if len(entries) > 1:
            yield from _comment("These lines were replayed together.")
        if best.candidate.policy == BALANCE:
            yield from _comment("All other settings were as they come.")
        for key, value in entries:
            yield line_of(key, value)
    if not found.supported:
        yield from _comment("No line is recommended: leave the settings as they are.")
    others = [
        f"also supported: {_describe(each.candidate)}; {_short(each)}"
        for each in found.supported[1:]
    ]
    others += [
        f"not supported: {_describe(each.candidate)}: {each.refusal}" for each in found.refused
    ]
    if others:
        yield "#"
    for text in others[:_MOST_OTHERS]:
        yield from _comment(text)
    if len(others) > _MOST_OTHERS:
        yield from _comment(f"and {len(others) - _MOST_OTHERS} more: --output json lists all.")


def _evidence(verdict: Verdict) -> Iterator[str]:
    for trace in dict.fromkeys(each.row.trace for each in verdict.evidence):
        there = [each for each in verdict.evidence if each.row.trace == trace]
        yield from _comment(f"On {trace}, {there[0].row.pairs} pairs, 95 % intervals:")
        for each in there:
            yield from _comment(f"  {each.sentence}")
    for (trace, _, measure), days in verdict.held_out.items():
        yield from _comment(f"On later days of {trace}: {describe_days(measure, days)}")


def _short(verdict: Verdict) -> str:
    return "; ".join(f"{each.row.trace}: {each.sentence}" for each in verdict.evidence)


def _describe(candidate: Named) -> str:
    return f"{candidate.policy} with {candidate.parameters or 'nothing set'}"


def _comment(text: str) -> list[str]:
    """Comment lines; names from other programs stay within them, so that none can set a line."""
    plain = printable(text)
    indent = "# " + " " * (len(plain) - len(plain.lstrip()))
    return textwrap.wrap(
        plain.strip(),
        width=_WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
