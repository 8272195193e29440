import pytest

from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.core.strategies.placement.strategies import PLACEMENT, LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.core.strategies.shedding_strategies import SHEDDING
from broker_ctl.core.strategies.splitting.algorithms import SPLITTING, range_equally_divide
from broker_ctl.errors import SettingsError

IMPL = "org.apache.pulsar.broker.loadbalance.impl."


@pytest.mark.parametrize("package", ["", IMPL])
def test_strategies_are_found_by_short_name_and_by_pulsars_class_name(package: str) -> None:
    assert isinstance(SHEDDING.find(f"{package}ThresholdShedder"), ThresholdShedder)
    found = PLACEMENT.find(f"{package}LeastLongTermMessageRate")
    assert isinstance(found, LeastLongTermMessageRate)


def test_split_algorithms_have_pulsars_names() -> None:
    assert SPLITTING.find(SplitRules().algorithm) is range_equally_divide
    for name, algorithm in SPLITTING.entries.items():
        assert algorithm.__name__ == name


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(SettingsError, match=r"'Fastest'.*ThresholdShedder"):
        SHEDDING.find("Fastest")
