"""Reasons of decisions as text; JSON has their ids."""

from typing import Final

from broker_ctl.core.cluster.decisions import Reason

_SENTENCES: Final = {
    Reason.OVERLOADED: "its broker is overloaded",
    Reason.IMBALANCE: "the brokers are unevenly loaded",
    Reason.UNDERLOADED_RECEIVER: "another broker is almost idle",
    Reason.UNOWNED: "it had no owner",
    Reason.DRAIN: "its broker is drained",
    Reason.ADMIN: "an operator requested it",
    Reason.PROFILE: "the daily profile places it elsewhere",
    Reason.SURGE: "traffic has grown many times within a minute",
    Reason.RESERVED: "it is already assigned to that broker",
    Reason.LEAST_MSG_RATE: "that broker has the lowest message rate",
    Reason.ALL_OVERLOADED: "all brokers are overloaded",
    Reason.LEAST_USAGE: "that broker has the lowest usage",
    Reason.ROUND_ROBIN: "it was that broker's turn",
    Reason.DRAWN: "that broker was selected at random",
    Reason.ISOLATION: "an isolation policy forbids it",
    Reason.TOPIC_KIND: "the broker does not serve that kind of topic",
    Reason.ANTI_AFFINITY: "its anti-affinity group forbids it",
    Reason.EVEN_SPREAD: "the namespace would not be spread evenly",
    Reason.VERSION: "the broker has another version",
    Reason.TOPICS: "it has too many topics",
    Reason.SESSIONS: "it has too many producers and consumers",
    Reason.MSG_RATE: "its message rate is too high",
    Reason.BANDWIDTH: "its throughput is too high",
    Reason.BROKER_SHARE: "it uses too large a share of a broker",
    Reason.COLD: "it and its neighbour have almost no traffic",
    Reason.NEW_PART: "it has just been created by a split",
    Reason.TOO_FEW_BROKERS: "there is no other broker",
    Reason.BELOW_THRESHOLD: "nothing is above its threshold",
    Reason.LOW_THROUGHPUT: "it carries too little to be worth a move",
    Reason.SOLE_BUNDLE: "it is its broker's only bundle",
    Reason.NO_BUNDLES: "the broker has no bundles",
    Reason.NO_LOAD_DATA: "there is no load report yet",
    Reason.STALE_REPORT: "the load report is too old",
    Reason.DRAINING: "the broker is drained or stopping",
    Reason.SLOW_BROKER: "the broker is slow",
    Reason.TOO_MANY_SLOW: "too many brokers appear slow for the detection to be trusted",
    Reason.PINNED: "a policy allows no other broker",
    Reason.EXCLUDED: "it is excluded from balancing",
    Reason.NOT_MEASURED: "its load has not been measured yet",
    Reason.IN_GRACE: "it was moved or split recently",
    Reason.MOVING: "it is being moved",
    Reason.GONE: "it no longer exists",
    Reason.NOT_OWNED: "that broker does not own it",
    Reason.NO_BROKER: "no broker may take it",
    Reason.NO_GAIN: "a move would not make the load more even",
    Reason.HOT_TOPIC: "one topic has nearly all of its traffic",
    Reason.TOO_LARGE: "it would overload any other broker",
    Reason.SUPERSEDED: "another decision of the same plan has it",
    Reason.TOO_FEW_TOPICS: "it has too few topics to be split",
    Reason.INDIVISIBLE: "it cannot be split any further",
    Reason.COOLING_DOWN: "it rests after its last change",
    Reason.MAX_BUNDLES: "its namespace has as many bundles as it may",
    Reason.CYCLE_LIMIT: "enough is done in this cycle",
    Reason.HIT_COUNT: "it must be seen more often before anything is done",
    Reason.MIN_BUNDLES: "its namespace has as few bundles as it may",
    Reason.MERGED_TOO_LARGE: "both together would be split again",
    Reason.QUIET_HOURS: "it waits for the end of the quiet hours",
    Reason.CAPACITY: "a broker would exceed its limits (loadBalancerBrokerLimits)",
    Reason.TOPIC_SPREAD: "a broker has, or would have, too many partitions of one topic "
    "(loadBalancerTopicPartitionsPerBroker)",
    Reason.HEADROOM: "the others could not carry it if a broker died",
    Reason.BUDGET_BROKER: "as many moves of a broker as are allowed are under way",
    Reason.BUDGET_CLUSTER: "as many moves of the cluster as are allowed are under way",
    Reason.BUDGET_HOURLY_LOAD: "as much load was moved in this hour as is allowed",
    Reason.BUDGET_NAMESPACE: "as many moves of its namespace as are allowed are under way",
}


def reason_text(reason: str) -> str:
    """The text of a reason; the id in words if another version of the daemon sent it."""
    try:
        return _SENTENCES[Reason(reason)]
    except ValueError:
        return reason.replace("_", " ")
