"""Validation of replica lists, the same for every source."""

from collections.abc import Collection, Sequence


def fault_of(replicas: Sequence[int], allowed: Collection[int]) -> str | None:
    """Return what is wrong with a replica list, as the end of a sentence; None if it is valid.

    ``allowed`` are the broker ids that the list may contain.
    """
    if not replicas:
        return "names no broker"
    negative = sorted(broker for broker in replicas if broker < 0)
    if negative:
        return f"names {_listed(negative)}, which no broker can be"
    repeated = sorted({broker for broker in replicas if replicas.count(broker) > 1})
    if repeated:
        return f"names {_listed(repeated)} more than once"
    unknown = sorted(broker for broker in replicas if broker not in allowed)
    if unknown:
        may = f"only {_listed(sorted(allowed))}" if allowed else "there is none"
        return f"names {_listed(unknown)}: no such broker lives, {may}"
    return None


def fault_of_min_isr(min_isr: int, replicas: Sequence[int]) -> str | None:
    """Return why a partition with these replicas could never commit; None if it could."""
    if len(replicas) >= min_isr:
        return None
    count = "1 replica" if len(replicas) == 1 else f"{len(replicas)} replicas"
    return f"has {count}, fewer than its min ISR of {min_isr}: nothing could be committed"


def _listed(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
