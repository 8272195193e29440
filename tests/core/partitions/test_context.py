"""The sets that are kept up to date equal those that a full scan would find."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)

BROKERS = range(4)
TOPICS = ("a", "b")
Act = Callable[[Context], None]

brokers = st.sets(st.sampled_from(BROKERS))
replicas = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 2))
assignments = st.builds(
    lambda of, is_moving: Assignment(of, of[:1] if is_moving else ()), replicas, st.booleans()
)
states = st.builds(
    LeaderAndIsr,
    st.sampled_from([NO_LEADER, *BROKERS]),
    st.integers(0, 9),
    replicas.map(lambda of: tuple(sorted(of))),
    st.just(1),
)


def put_brokers(live: set[int]) -> Act:
    return lambda context: context.put_brokers({each: LiveBroker(each, 1, "h", 1) for each in live})


def put_topic(name: str, of: dict[int, Assignment]) -> Act:
    return lambda context: context.put_topic(name, TopicAssignment("id", of))


def put_rules(name: str, min_isr: int | None) -> Act:
    rules = None if min_isr is None else TopicRules(min_isr=min_isr)
    return lambda context: context.put_rules(name, rules)


acts = st.one_of(
    st.builds(put_rules, st.sampled_from(TOPICS), st.none() | st.integers(1, 3)),
    st.builds(put_brokers, brokers),
    st.builds(
        put_topic,
        st.sampled_from(TOPICS),
        st.dictionaries(st.integers(0, 2), assignments, max_size=3),
    ),
    st.builds(lambda of, state: lambda context: context.put_state(of, state), partitions, states),
    st.builds(lambda of: lambda context: context.drop_state(of), partitions),
    st.builds(lambda name: lambda context: context.forget_topic(name), st.sampled_from(TOPICS)),
    st.builds(
        lambda broker, of: lambda context: context.failures.put(broker, frozenset(of)),
        st.sampled_from(BROKERS),
        st.sets(partitions, max_size=3),
    ),
    st.builds(
        lambda silent: lambda context: context.put_silent(silent & context.brokers.keys()), brokers
    ),
)


@given(st.lists(acts, max_size=25))
def test_the_indexes_equal_the_result_of_a_full_scan(story: list[Act]) -> None:
    context = Context(1, TopicRules(min_isr=2))
    for act in story:
        act(context)
    known = {
        TopicPartition(name, number): assignment
        for name, topic in context.topics.items()
        for number, assignment in topic.partitions.items()
    }
    assert context.assignments == known
    assert context.states.keys() <= known.keys()
    led = {each: state.leader for each, state in context.states.items()}
    for broker in (NO_LEADER, *BROKERS):
        assert set(context.led_by(broker)) == {each for each in led if led[each] == broker}
        having = {each for each in known if broker in known[each].replicas}
        assert set(context.replicas_on(broker)) == having
        preferring = {each for each in known if known[each].replicas[0] == broker}
        assert context.preferring[broker] == len(preferring)
        elsewhere = {each for each in preferring if led.get(each) != broker}
        assert context.led_elsewhere.get(broker, set()) == elsewhere
    assert context.offline.keys() == {
        each for each in known if led.get(each) not in context.brokers
    }
    assert context.reassigning == {each for each in known if known[each].is_reassigning}
    assert context.under_replicated == {
        each for each, state in context.states.items() if len(state.isr) < len(known[each].replicas)
    }
    assert context.under_min_isr == {
        each
        for each, state in context.states.items()
        if len(state.isr) < context.rules_of(each.topic).min_isr
    }
    held = {broker for assignment in known.values() for broker in assignment.replicas}
    assert context.dead_brokers() == sorted(held - context.brokers.keys())
    for of in known:
        failed = {broker for broker in BROKERS if of in context.failures.on(broker)}
        assert context.live_for(of) == context.brokers.keys() - failed - context.silent
        assert context.registered_for(of) == context.brokers.keys() - failed
