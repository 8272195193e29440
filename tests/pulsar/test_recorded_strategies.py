"""Our strategies against what Pulsar's own classes decided when they were asked; no Java needed."""

from tests.pulsar.harness.comparing import Figures, compared
from tests.pulsar.harness.departures import Departure
from tests.pulsar.harness.recording import recorded


def test_our_strategies_decide_as_pulsars_classes_did_but_for_listed_departures() -> None:
    found = Figures()
    for case, answer in recorded():
        for verdict in compared(case, answer):
            found.add(verdict)
    assert found.unexplained[:3] == []
    assert found.summary()["equal"] > 0
    shown = set().union(*found.departures.values())
    assert shown == set(Departure), "each departure has a case that shows it"
