"""Reasons not to act are claims: without what they name there is a better plan, with it none."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.balance.memory import BalanceMemory, FormerBroker
from broker_ctl.core.strategies.balance.obstacles import Obstacles
from tests.core.strategies.balance.fleets import CALM, POLICY, Fleet, rules_of
from tests.core.strategies.reasons.oracle import KINDS, LIMIT, PLACE, REST, RETURN, SILENT, Small
from tests.support.clusters.views import NAMESPACE, NOW_S

_BROKERS = ("b1", "b2", "b3", "b4")
_CASES = 400
_JUDGED = {
    Reason.IN_GRACE,
    Reason.ISOLATION,
    Reason.STALE_REPORT,
    Reason.CAPACITY,
    Reason.NO_GAIN,
    Reason.HOT_TOPIC,
}


def _decided(seed: int) -> tuple[Small, list[Skip]]:
    """A small cluster, as it is once its plan is carried out, and what stays too full, and why."""
    dice = random.Random(seed)
    names = _BROKERS[: dice.choice((2, 3, 4))]
    sizes = {
        name: [dice.choice((20, 40, 60, 90, 130)) for _ in range(dice.randint(0, 4))]
        for name in names
    }
    sizes["b1"] = [dice.choice((90, 130, 200)) for _ in range(3)]
    built = Fleet.of(sizes)
    bundles = list(built.owners)
    kept = {REST: 0.5, RETURN: 0.5, PLACE: 0.3, SILENT: 0.2, LIMIT: 0.3}
    on = {kind for kind in KINDS if dice.random() < kept[kind]}
    resting = {b for b in bundles if REST in on and dice.random() < 0.7}
    left = {
        b: FormerBroker(dice.choice(names), NOW_S - 60)
        for b in bundles
        if RETURN in on and dice.random() < 0.7
    }
    built.unloaded_s = dict.fromkeys(resting, NOW_S - 60.0)
    reserved = names[-1] if PLACE in on and len(names) > 2 else None
    if reserved is not None:
        policy = IsolationPolicy("dedicated", ("other/.*",), (reserved,))
        built.constraints = Constraints(isolation=(policy,))
    shared = {name for name in names if name != reserved}
    silent = {names[1]} if SILENT in on else set()
    limits = "; ".join(f"{name} usage=45" for name in names[1:]) if LIMIT in on else ""
    rules = rules_of(CALM, limits=BrokerLimits.parse(limits))
    view = built.view()
    view = replace(
        view,
        brokers={
            name: replace(each, age_s=1e6 if name in silent else 0.0)
            for name, each in view.brokers.items()
        },
    )
    memory = POLICY.observe(BalanceMemory(left=left), view, rules)
    decisions = POLICY.shed(view, memory, rules)
    owners = dict(built.owners)
    moved = [each for each in decisions if isinstance(each, Transfer)]
    for move in moved:
        owners[move.bundle] = move.destination
    number = {bundle: place for place, bundle in enumerate(bundles)}
    small = Small(
        tuple(built.lines[each].throughput / (1 << 20) / 1000 for each in bundles),
        tuple(owners[each] for each in bundles),
        names,
        {number[each] for each in resting},
        {number[each]: where.broker_id for each, where in left.items()},
        {number[each]: shared | silent for each in bundles},
        silent,
        {name: 0.45 if LIMIT in on and name != "b1" else 1e9 for name in names},
        {number[move.bundle] for move in moved},
    )
    skips = [each for each in decisions if isinstance(each, Skip) and each.subject in names]
    return small, [each for each in skips if each.reason in _JUDGED and "times" in each.detail]


def _judge(seeds: range) -> tuple[Counter[str], list[str]]:
    """Reasons that were judged, by kind, and those that are false."""
    counts: Counter[str] = Counter()
    false: list[str] = []
    for seed in seeds:
        small, skips = _decided(seed)
        for skip in skips:
            named = {kind for kind in KINDS if kind in skip.detail}
            counts["+".join(sorted(kind.strip() for kind in named)) or skip.reason.value] += 1
            is_better = small.is_better(skip.subject, CALM.band, named or set(KINDS))
            if small.is_better(skip.subject, CALM.band, set()) or is_better != bool(named):
                false.append(f"{seed}: {skip.sentence}")
    return counts, false


def test_each_reason_is_as_a_brute_force_judge_finds_it() -> None:
    counts, false = _judge(range(_CASES))
    assert false == []
    assert set(counts) >= {REST, RETURN, PLACE.strip(), SILENT, LIMIT, Reason.NO_GAIN.value}, counts
    assert f"{RETURN}+{REST}" in counts


def test_a_reason_that_is_planted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Obstacles, "of", lambda *_: None)
    assert len(_judge(range(_CASES))[1]) > 20


def test_a_rest_says_its_key_and_its_end() -> None:
    fleet = Fleet.of({"b1": [300, 100], "b2": [100], "b3": [100]})
    fleet.unloaded_s = dict.fromkeys(fleet.owners, NOW_S - 600)
    fleet.look()
    (skip,) = [each for each in fleet.decisions if each.reason is Reason.IN_GRACE]
    rested = f"rests for 20 min more, {REST}"
    assert rested in skip.detail
    dated = replace(fleet.view(), taken_at_ms=(10 * 60 + 22) * 60_000 - 1)
    decisions = POLICY.shed(dated, fleet.memory, fleet.rules)
    assert any(f"rests until 10:42 UTC, {REST}" in each.detail for each in decisions)


def test_a_quiet_dedicated_broker_does_not_stop_the_others() -> None:
    """Three brokers, one for others only: the two that share level out between them."""
    fleet = Fleet.of({"b1": [190, 190, 190, 190], "b2": [140, 140, 140], "b3": []})
    policy = IsolationPolicy("ords", ("shop/.*",), ("b3",))
    assert not policy.covers(NAMESPACE)
    fleet.constraints = Constraints(isolation=(policy,))
    fleet.cycle()
    usage = fleet.usage
    assert max(usage.values()) / ((usage["b1"] + usage["b2"]) / 2) <= CALM.band.high
    assert usage["b3"] == 0.0


if __name__ == "__main__":
    judged, lies = _judge(range(4 * _CASES))
    for kind, count in sorted(judged.items()):
        print(f"{count:6} {kind}")  # noqa: T201
    print(f"{len(lies):6} false")  # noqa: T201
