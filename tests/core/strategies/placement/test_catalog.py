import pytest

from broker_ctl.core.strategies.placement.strategies import PLACEMENT

BALANCE = "org.apache.pulsar.broker.loadbalance."


@pytest.mark.parametrize(
    "pulsars",
    [
        f"{BALANCE}impl.LeastLongTermMessageRate",
        f"{BALANCE}impl.LeastResourceUsageWithWeight",
        f"{BALANCE}extensions.strategy.LeastResourceUsageWithWeight",
        f"{BALANCE}impl.AvgShedder",
        f"{BALANCE}impl.RoundRobinBrokerSelector",
    ],
)
def test_every_placement_of_pulsar_is_there_by_its_class_name(pulsars: str) -> None:
    assert PLACEMENT.find(pulsars) is PLACEMENT.find(pulsars.rpartition(".")[2])
