"""What a leading can tell of itself at this moment, for metrics."""

from collections import Counter
from collections.abc import Mapping

from broker_ctl.core.simple.placement import SimplePlacement
from broker_ctl.core.simple.standing import Standing, standing
from broker_ctl.leader.leading import Leading
from broker_ctl.leader.tally import Tally


def tally(leading: Leading) -> Tally:
    """What it has come to so far."""
    placed = leading.placements.log
    return Tally(
        leading.board.corrupt,
        leading.outcomes.relieved_brokers,
        Counter(placed.results),
        placed.newest_s,
    )


def report_ages_s(leading: Leading) -> Mapping[str, float]:
    """By broker, the time since its newest report came in; a report goes with its broker."""
    now_s = leading.parts.clock.now_s()
    return {
        broker_id: now_s - report.received_s for broker_id, report in leading.board.reports.items()
    }


def standings(leading: Leading) -> Mapping[str, Standing]:
    """By broker of the last view, how it ranks; nothing unless the Simple manager places."""
    view, placement = leading.survey.latest, leading.parts.rules().placement
    if view is None or not isinstance(placement, SimplePlacement):
        return {}
    return {broker_id: standing(broker, placement) for broker_id, broker in view.brokers.items()}
