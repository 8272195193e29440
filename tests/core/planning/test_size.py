"""How many brokers a load needs."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import ResourceUsage, SystemUsage
from broker_ctl.core.planning.size import SizeAdvice, advise_size, usage_after_loss
from broker_ctl.core.rules.leader_rules import BalanceRules, Band
from tests.support.clusters.views import broker, cluster

# 80 % of a broker carry the mean load of 0.8 / 1.25 brokers.
RULES = BalanceRules(band=Band(high=1.25, low=1.0), headroom_ratio=0.8)


def using(broker_id: str, cpu: float, out: float = 0.0, limit: float = 100.0) -> BrokerView:
    usage = SystemUsage(cpu=ResourceUsage(cpu, limit), bandwidth_out=ResourceUsage(out, limit))
    seen = broker(broker_id, max(cpu, out) / limit)
    return replace(seen, load=replace(seen.load, usage=usage), size_ratio=limit / 100)


def advised(view: ClusterView, growth_ratio: float = 0.0) -> SizeAdvice:
    advice = advise_size(view, RULES, growth_ratio)
    assert advice is not None
    return advice


def five(constraints: Constraints = NO_CONSTRAINTS) -> ClusterView:
    view = cluster([using(f"b{number}", 64.0, out=10.0) for number in range(5)])
    return replace(view, constraints=constraints)


def test_the_tightest_resource_decides_and_one_broker_may_be_lost() -> None:
    """3.2 brokers are full; of each 0.64 is used: 5 are needed, and one more."""
    advice = advised(five())
    assert (advice.needed, advice.needed_with_broker_lost) == (5, 6)
    assert (advice.recommended, advice.missing) == (6, 1)
    assert advice.needed_with_domain_lost is None
    assert advice.usage_ratio == pytest.approx(0.64)
    assert advice.sentence == "5 brokers, 6 are recommended: add 1"


@pytest.mark.parametrize(("growth", "needed"), [(0.0, 5), (0.2, 6), (0.21, 7), (1.0, 10)])
def test_the_load_may_grow(growth: float, needed: int) -> None:
    assert advised(five(), growth).needed == needed


@pytest.mark.parametrize(("domains", "needed"), [(2, 10), (3, 8), (5, 7)])
def test_a_whole_failure_domain_may_be_lost(domains: int, needed: int) -> None:
    """Of 8 in three domains the largest has 3, and 5 are left; of 7 in five it has 2."""
    where = {f"b{number}": f"rack-{number % domains}" for number in range(5)}
    advice = advised(five(Constraints(domain_of=where)))
    assert advice.needed_with_domain_lost == advice.recommended == needed


def test_the_usage_after_a_loss_is_that_of_the_others_at_best() -> None:
    """Of 3.2 brokers' load, four carry 0.8 each; without the larger of two racks two are left."""
    assert usage_after_loss(five(), RULES) == {"broker": pytest.approx(0.8)}
    where = {f"b{number}": f"rack-{number % 2}" for number in range(5)}
    found = usage_after_loss(five(Constraints(domain_of=where)), RULES)
    assert found == {"broker": pytest.approx(0.8), "domain": pytest.approx(1.6)}


def test_brokers_without_a_domain_do_not_form_one() -> None:
    where = Constraints(domain_of={"b0": "rack-0"})
    assert advised(five(where)).needed_with_domain_lost is None


def test_the_largest_broker_counts_as_several_of_the_mean_size() -> None:
    """Two of 50, one of 200: the mean is 100, and with the large one two of it go."""
    view = cluster([using("a", 10, limit=50), using("b", 10, limit=50), using("c", 44, limit=200)])
    advice = advised(view)
    assert (advice.needed, advice.needed_with_broker_lost) == (1, 3)
    assert advice.sentence == "3 brokers, 3 are recommended: the number is right"


def test_a_draining_broker_counts_with_its_load_and_not_with_its_capacity() -> None:
    leaving = replace(using("c", 64), is_draining=True)
    advice = advised(cluster([using("a", 32), using("b", 32), leaving]))
    assert (advice.brokers, advice.needed) == (2, 2)
    assert advice.usage_ratio == pytest.approx(0.64)


def test_fewer_brokers_may_be_enough() -> None:
    advice = advised(cluster([using(f"b{number}", 10.0) for number in range(5)]))
    assert (advice.needed, advice.recommended, advice.missing) == (1, 2, -3)
    assert advice.to_row()["sentence"] == "5 brokers, 2 are recommended: 3 may go"


def test_where_nobody_says_what_it_can_take_there_is_no_advice() -> None:
    assert advise_size(cluster([broker("a", 0.5), broker("b", 0.5)]), RULES) is None
    assert advise_size(cluster([]), RULES) is None


def test_a_resource_without_a_limit_somewhere_decides_nothing() -> None:
    endless = using("b", 64.0, out=99.0)
    usage = replace(endless.load.usage, bandwidth_out=ResourceUsage(99.0, 0.0))
    view = cluster([using("a", 64.0), replace(endless, load=replace(endless.load, usage=usage))])
    assert advised(view).needed == 2
