"""Our strategies and Pulsar's own classes, asked the same questions."""

from typing import Any, Final

import pytest

from tests.pulsar.harness import cases, pulsar_side, recording
from tests.pulsar.harness.comparing import Figures, compared
from tests.pulsar.harness.departures import Departure, mended_in
from tests.support.pulsar.distribution import Distribution

# A minute on a quiet machine: a hundred thousand draws, and some thousand replays.
pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(1800)]

SEED: Final = 1
CASES: Final = 200


def test_our_strategies_decide_as_pulsars_classes_but_for_listed_departures(
    pulsar_distribution: Distribution, figures: dict[str, Any]
) -> None:
    asked = [*cases.cases(SEED, CASES), *(case for case, _ in recording.recorded())]
    found = Figures()
    for case, answer in zip(asked, pulsar_side.decided(asked, pulsar_distribution), strict=True):
        for verdict in compared(case, answer):
            found.add(verdict)
    figures["strategies"] = {"pulsar": pulsar_distribution.version, **found.summary()}
    assert found.unexplained[:3] == []
    shown = set().union(*found.departures.values())
    mended = mended_in(pulsar_distribution.version)
    assert shown == set(Departure) - mended, "each departure has a case that shows it"
