"""What the settings say of when they are read, against what is read.

The parts of a daemon are built with another value of each setting, as in the table of what each is
wired to: where nothing differs, nothing reads it. Of the rules of a leader all are built whatever
sheds and places; there it is recorded which of them a leader reads in a scenario.
"""

from collections.abc import Callable
from unittest import mock

import pytest

from broker_ctl.daemon.wiring.part_rules import leader_rules
from broker_ctl.settings.effect import is_used
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.simulation.model.scenario import ReplayPace, ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.replay.replay import ReplayCourse
from tests.support.clusters.recorded_rules import RULES, recorded
from tests.support.daemon.built import build, changed, seen
from tests.support.daemon.wired_settings import (
    ATTACHED,
    MERGING,
    SIMPLE,
    WEBHOOK,
    WIRED,
    Wired,
)
from tests.support.pipeline.small_scenarios import small

Load = Callable[..., Settings]
STRATEGY = "loadBalancerLoadSheddingStrategy"
PLACEMENT = "loadBalancerLoadPlacementStrategy"
OFF = {"dataPlane", "loadManagerClassName", "metadataStoreUrl"}

# Settings of rules: what is built of them says nothing about whether they are read.
# The leader's own: nobody goes by them in a scenario.
OF_STRATEGIES = {"shedding", "shedders", "planner", "slow_brokers"}
LOOP = "LeaderRules."
RULE_NAMES = tuple(f"{kind.__name__}." for kind in RULES)
STEERING = [row for row in WIRED if all(place.startswith(RULE_NAMES) for place in row.places)]
# Read only once something has happened that the scenario has not: a broker that is slow, brokers
# whose messages are even and whose bytes are not, a bundle that moves for the second
# time.
NOT_SEEN = {
    "loadBalancerSheddingGracePeriodMinutes",
    "loadBalancerSlowBrokerRemovalEnabled",
    "minUnloadMessageThroughput",
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold",
}


@pytest.mark.parametrize(
    "row", [row for row in WIRED if row not in STEERING], ids=lambda row: row.key
)
def test_a_setting_that_arrives_is_said_to_be_read(row: Wired, load_here: Load) -> None:
    assert is_used(load_here(*row.beside, f"{row.key}={row.value}"), row.key)


# Handed to each daemon alike, and asked for by no part of one beside a Pulsar cluster.
UNREAD_THERE = {
    "advertisedListeners",
    "brokerReclaimGraceMillis",
    "brokerServicePort",
    "brokerServicePortTls",
    "dataPlaneSecretFile",
    "loadBalancerMaxPlacementsPerSecondOfLostBrokers",
    "lookupServicePort",
    "maxConcurrentLookupRequest",
    "statusFilePath",
    "supportedNamespaceBundleSplitAlgorithms",
    # Asked for where it acts.
    "pulsarActDespiteClusterBalancer",
}


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param((), id="default"),
        pytest.param(ATTACHED, id=ATTACHED[-1]),
        *(
            pytest.param(beside, id=beside[-1], marks=pytest.mark.slow)
            for beside in (WEBHOOK, SIMPLE, ("metadataStoreBatchingEnabled=false",))
        ),
    ],
)
def test_a_setting_that_no_part_is_built_of_is_reported_as_without_effect(
    beside: tuple[str, ...], load_here: Load
) -> None:
    given = {override.partition("=")[0] for override in beside} | OFF
    usual = build(load_here(*beside))
    said: dict[str, bool] = {}
    found: dict[str, bool] = {}
    for row in WIRED:
        if row in STEERING or row.key in given:
            continue
        try:
            other = load_here(*beside, f"{row.key}={row.value}")
        except Exception:  # noqa: BLE001  # what goes with nothing of this says nothing of it
            continue
        if beside is ATTACHED and row.key in UNREAD_THERE:
            assert not is_used(other, row.key)
            continue
        said[row.key] = is_used(other, row.key)
        found[row.key] = bool(changed(usual, build(other)))
    assert {key for key in said if said[key] != found[key]} == set()
    assert len(said) > 50


def read_by_a_leader(settings: Settings) -> set[str]:
    """The rules, by class and field, that two short days of an uneven cluster ask for."""
    read: set[str] = set()
    heavy, light = [60.0, 30, 5, 3, 2, 2, 2, 1, 1, 1, 40, 10], [0.01] * 8
    owners = ["a"] * 8 + ["b"] * 6 + ["c"] * 4 + ["d"] * 2
    death = ScenarioEvent(2, "d", ScenarioEventKind.DOWN)
    for events in ((), (death,)):
        scenario = small(
            [*heavy, *light], owners, minutes=15, brokers=("a", "b", "c", "d"), events=events
        )
        course = ReplayCourse(scenario, recorded(leader_rules(settings), read), ReplayPace())
        # What is tried without a setting copies all rules, those of other strategies too.
        with mock.patch("broker_ctl.core.planning.decide.tried", lambda *given: given[-1]):
            for minute in range(15):
                course.replay_minute(minute)
    return read


@pytest.mark.parametrize(
    "beside",
    [
        (),
        *[
            (f"{STRATEGY}={name}",)
            for name in (
                "OverloadShedder",
                "ThresholdShedder",
                "UniformLoadShedder",
                "AvgShedder",
                "TransferShedder",
            )
        ],
        (f"{PLACEMENT}=LeastResourceUsageWithWeight",),
        (f"{PLACEMENT}=LeastLongTermMessageRate",),
        SIMPLE,
        MERGING,
        ("loadBalancerEnabled=false",),
        ("loadBalancerSheddingEnabled=false",),
        ("loadBalancerAutoBundleSplitEnabled=false",),
        ("loadBalancerSlowBrokerDetectionEnabled=false",),
    ],
    ids=lambda beside: ",".join(beside) or "default",
)
def test_rules_that_no_leader_reads_are_said_to_have_no_effect(
    beside: tuple[str, ...], load_here: Load
) -> None:
    given = {override.partition("=")[0] for override in beside}
    settings = load_here(*beside)
    read, usual = read_by_a_leader(settings), seen(leader_rules(settings))
    said: dict[str, bool] = {}
    found: dict[str, bool] = {}
    for row in STEERING:
        if row.key in given or any(place.startswith(LOOP) for place in row.places):
            continue
        other = load_here(*beside, f"{row.key}={row.value}")
        places = changed(usual, seen(leader_rules(other)))
        said[row.key] = is_used(other, row.key)
        found[row.key] = not read.isdisjoint(places)
    assert {key for key in found if found[key] and not said[key]} == set()
    # What all strategies share may stay unread for a while; the keys of a strategy do not.
    own = {key for key in said if DECLARATIONS[key].subject in OF_STRATEGIES} - NOT_SEEN
    assert {key for key in own if said[key] and not found[key]} == set()
    assert len(own) > 30
