"""Cut so that both children hold as many topics (docs: pulsar-split-algorithms)."""

from broker_ctl.core.strategies.splitting.request import SplitRequest


def topic_count_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Half way between the two middle topics; none below two topics.

    Half way is rounded up: rounded down, as Pulsar does, two adjacent hashes would both fall into
    the right child. Topics of one and the same hash cannot be parted.
    """
    hashes = sorted(request.topic_hashes)
    if len(hashes) < 2:
        return ()
    left, right = hashes[len(hashes) // 2 - 1], hashes[len(hashes) // 2]
    return request.inside((left + (right - left + 1) // 2,))
