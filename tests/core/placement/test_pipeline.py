from broker_ctl.core.decisions import Reason
from broker_ctl.core.placement.least_long_term_message_rate import LeastLongTermMessageRate
from broker_ctl.core.placement.pipeline import place
from broker_ctl.core.placement.policy import Choice
from broker_ctl.core.rules import PlacementRules
from broker_ctl.core.view import BrokerView, ClusterView, InFlight
from tests.support.views import BUNDLES, broker, cluster, stats

A, B, NEW = BUNDLES[:3]
RULES = PlacementRules(max_topics=100)


def full(broker_id: str, usage_ratio: float, msg_rate: float) -> BrokerView:
    return broker(broker_id, usage_ratio, {A: stats(1, topics=101, msg_rate=msg_rate)})


def roomy(broker_id: str, usage_ratio: float, msg_rate: float) -> BrokerView:
    return broker(broker_id, usage_ratio, {B: stats(1, topics=100, msg_rate=msg_rate)})


def placed(view: ClusterView) -> Choice:
    return place(view, NEW, view.receivers(1800), LeastLongTermMessageRate(), RULES)


def test_a_broker_with_too_many_topics_is_passed_over() -> None:
    view = cluster([full("b1", 0.1, 1), roomy("b2", 0.1, 50)], owners={NEW: None})
    assert placed(view).broker_id == "b2"


def test_where_all_have_too_many_topics_they_are_asked_after_all() -> None:
    assert placed(cluster([full("b1", 0.1, 1)], owners={NEW: None})).broker_id == "b1"


def test_where_only_an_overloaded_broker_has_room_the_others_are_asked_after_all() -> None:
    view = cluster([full("b1", 0.1, 50), roomy("b2", 0.9, 1)], owners={NEW: None})
    assert placed(view).broker_id == "b1"


def test_a_bundle_that_is_on_its_way_goes_there() -> None:
    reports = [full("b1", 0.1, 1), roomy("b2", 0.1, 50)]
    view = cluster(reports, owners={NEW: None}, moves=[InFlight(NEW, "b1", "b2")])
    assert (placed(view).broker_id, placed(view).reason) == ("b2", Reason.RESERVED)


def test_a_bundle_whose_receiver_died_on_the_way_is_placed_anew() -> None:
    view = cluster([full("b1", 0.1, 1)], owners={NEW: None}, moves=[InFlight(NEW, "b1", "gone")])
    assert placed(view).broker_id == "b1"


def test_nobody_there_is_an_answer() -> None:
    assert placed(cluster([], owners={NEW: None})).broker_id is None
