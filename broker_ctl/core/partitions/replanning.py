"""Plans new replicas for existing partitions (docs: cruise-control).

The plan distributes replicas evenly with few moves: a replica moves only if its broker is not one
of the given ones, has more than its share, or shares a rack with another replica while a rack
has none (docs: kafka-racks).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.racks import NO_RACKS, Racks, racks_used, racks_wanted
from broker_ctl.errors import InvalidReplicas

Replicas = tuple[int, ...]


def replan(
    partitions: Mapping[TopicPartition, Replicas],
    brokers: Collection[int],
    racks: Racks = NO_RACKS,
) -> dict[TopicPartition, Replicas]:
    """Plan replicas on these brokers only, evenly distributed, with few moves.

    Each partition keeps its number of replicas, and is on as many racks as it can be. Afterwards
    leaderships are balanced by reordering the replicas of partitions, which moves no data.

    Raises:
        InvalidReplicas: a partition has more replicas than there are brokers.
    """
    allowed = {broker: racks.get(broker, "") for broker in sorted(brokers)}
    for partition, replicas in sorted(partitions.items()):
        if len(replicas) > len(allowed):
            raise InvalidReplicas(
                f"{partition} has {len(replicas)} replicas, and is to be on {len(allowed)} brokers"
            )
    placed = {
        partition: [replica for replica in partitions[partition] if replica in allowed]
        for partition in sorted(partitions)
    }
    counts = Counter(dict.fromkeys(allowed, 0))
    counts.update(replica for replicas in placed.values() for replica in replicas)
    for partition, kept in placed.items():
        _complete(kept, len(partitions[partition]), counts, allowed)
    _level(counts, _holders(placed, counts), partial(_move, allowed))
    leaders = Counter(dict.fromkeys(counts, 0))
    leaders.update(replicas[0] for replicas in placed.values())
    _level(leaders, _leaders(placed, counts), _lead)
    return {partition: tuple(kept) for partition, kept in placed.items()}


def _complete(kept: list[int], factor: int, counts: Counter[int], racks: Racks) -> None:
    """Give up replicas that share a rack while another one would have none; add what is missing.

    The preferred replica stays: its leadership would move with it.
    """
    while racks_used(kept, racks) + factor - len(kept) < racks_wanted(factor, racks):
        in_rack = Counter(racks[broker] for broker in kept)
        sharing = [broker for broker in kept[1:] if in_rack[racks[broker]] > 1]
        given = max(sharing, key=lambda broker: (counts[broker], broker))
        kept.remove(given)
        counts[given] -= 1
    in_rack = Counter(racks[broker] for broker in kept)
    while len(kept) < factor:
        free = [broker for broker in counts if broker not in kept]
        least = min(free, key=lambda broker: (in_rack[racks[broker]], counts[broker], broker))
        kept.append(least)
        counts[least] += 1
        in_rack[racks[least]] += 1


# By broker: the replica lists from which it could give a replica or a leadership.
_Held = dict[int, list[list[int]]]
# Moves a replica or leadership from the first broker to the second; returns whether it could.
_Give = Callable[[list[int], int, int], bool]


def _level(counts: Counter[int], held: _Held, give: _Give) -> None:
    """Move from the brokers with most to those with least while that makes them more even.

    Within a rack a replica can always move if the difference is two; to another rack only if its
    partition stays on as many racks; a leadership only to a broker that has a replica.
    """
    stuck: set[tuple[int, int]] = set()
    while True:
        by_count = sorted(counts, key=lambda broker: (counts[broker], broker))
        pairs = (
            (most, least)
            for most in reversed(by_count)
            for least in by_count
            if counts[most] - counts[least] > 1 and (most, least) not in stuck
        )
        pair = next(pairs, None)
        if pair is None:
            return
        most, least = pair
        given = (place for place, each in enumerate(held[most]) if give(each, most, least))
        place = next(given, None)
        if place is None:
            stuck.add(pair)
            continue
        held[least].append(held[most].pop(place))
        counts[most] -= 1
        counts[least] += 1


def _move(racks: Racks, replicas: list[int], giver: int, receiver: int) -> bool:
    if receiver in replicas:
        return False
    moved = [receiver if broker == giver else broker for broker in replicas]
    if racks_used(moved, racks) < racks_wanted(len(moved), racks):
        return False
    replicas[:] = moved
    return True


def _lead(replicas: list[int], giver: int, receiver: int) -> bool:
    if receiver not in replicas:
        return False
    place = replicas.index(receiver)
    replicas[0], replicas[place] = receiver, giver
    return True


def _holders(placed: Mapping[TopicPartition, list[int]], brokers: Iterable[int]) -> _Held:
    held: _Held = {broker: [] for broker in brokers}
    for replicas in placed.values():
        for replica in replicas:
            held[replica].append(replicas)
    return held


def _leaders(placed: Mapping[TopicPartition, list[int]], brokers: Iterable[int]) -> _Held:
    held: _Held = {broker: [] for broker in brokers}
    for replicas in placed.values():
        held[replicas[0]].append(replicas)
    return held
