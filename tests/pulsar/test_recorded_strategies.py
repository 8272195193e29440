"""Our strategies against what Pulsar's own classes decided when they were asked; no Java needed."""

import pytest

from tests.pulsar.harness.comparing import Figures, compared
from tests.pulsar.harness.departures import Departure, mended_in
from tests.pulsar.harness.recording import recorded


@pytest.mark.parametrize("release", ["", "5.0.1"], ids=["4.0.8", "5.0.1"])
def test_our_strategies_decide_as_pulsars_classes_did_but_for_listed_departures(
    release: str,
) -> None:
    found = Figures()
    for case, answer in recorded(release):
        for verdict in compared(case, answer):
            found.add(verdict)
    assert found.unexplained[:3] == []
    assert found.summary()["equal"] > 0
    shown = set().union(*found.departures.values())
    assert shown == set(Departure) - mended_in(release), "each departure has a case that shows it"
