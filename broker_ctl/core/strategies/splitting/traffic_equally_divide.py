"""Cut in two where either half has as nearly the same traffic as can be. Ours, not Pulsar's.

The middle of the range says nothing of the load: where one topic has most of it, halves of the
range are cut again and again, and only empty bundles come of it.
"""

from itertools import accumulate, pairwise

from broker_ctl.core.strategies.splitting.request import SplitRequest


def traffic_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Between two topics by bytes/s, by msg/s where there are no bytes.

    None where all traffic lies at one hash: the other half would have none.
    """
    by_bytes = any(topic.throughput_bytes > 0 for topic in request.rates)
    traffic: dict[int, float] = {}
    for topic in sorted(request.rates, key=lambda topic: topic.position):
        value = topic.throughput_bytes if by_bytes else topic.msg_rate
        if value > 0:
            traffic[topic.position] = traffic.get(topic.position, 0.0) + value
    if len(traffic) < 2:
        return ()
    total = sum(traffic.values())
    gaps = zip(pairwise(traffic), accumulate(traffic.values()), strict=False)
    (before, after), _ = min(gaps, key=lambda gap: abs(2 * gap[1] - total))
    return request.inside((before + (after - before) // 2 + 1,))
