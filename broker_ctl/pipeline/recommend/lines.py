"""The lines of a ``broker.conf`` that make a daemon decide as a candidate did."""

from collections.abc import Sequence
from typing import Final

from broker_ctl.core.strategies.catalog import BALANCE
from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.backtest.candidates import Named
from broker_ctl.settings.intake import take_in
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Entry

# What a leader makes of its settings.
SETTINGS: Final = "settings"
_ORIGIN: Final = "the back-test"
_STRATEGIES: Final = (
    ("loadBalancerLoadPlacementStrategy", BALANCE),
    ("loadBalancerLoadSheddingStrategy", BALANCE),
)


def entries_of(candidate: Named, baseline: Named) -> tuple[tuple[str, str], ...]:
    """Keys and values, in the order of the keys.

    Raises:
        PipelineError: no settings make a daemon decide like that, or this release does not take
            them.
    """
    if candidate.policy not in {SETTINGS, BALANCE}:
        raise PipelineError(
            f"{candidate.policy} was replayed as Pulsar runs it, without the limits that a daemon"
            f" has: back-test the policy {SETTINGS} with loadBalancerLoadSheddingStrategy and"
            " loadBalancerLoadPlacementStrategy"
        )
    words = [word.partition("=") for word in candidate.parameters.split()]
    entries = {key: value for key, _, value in words}
    if candidate.policy == BALANCE != baseline.policy:
        entries = dict(_STRATEGIES) | entries
    found = tuple(sorted(entries.items()))
    _check(found)
    return found


def _check(entries: Sequence[tuple[str, str]]) -> None:
    if not entries:
        raise PipelineError("it is the settings as they come: there is no line to write")
    # Only each by itself: what goes together depends on the rest of the file.
    intake = take_in((Entry(key, value, _ORIGIN) for key, value in entries), DECLARATIONS)
    strange = (*intake.unknown, *intake.unused)
    faults = [
        *map(str, intake.problems),
        *(f"{each.key}: no setting of a daemon" for each in strange),
    ]
    if faults:
        raise PipelineError(f"this release does not take it: {'; '.join(faults)}")
