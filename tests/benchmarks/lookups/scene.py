"""What is looked up: topics in bundles of which two thirds have an owner."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, cycle, islice

from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic

_SEED = 1


def topic(namespace: str, number: int) -> Topic:
    """The topics of a namespace are numbered."""
    return Topic("persistent", Namespace(*namespace.split("/")), f"t{number}")


def path(namespace: str, number: int) -> str:
    """The path of its lookup."""
    return f"/lookup/v2/topic/persistent/{namespace}/t{number}"


def request(
    namespace: str, number: int, address: str, query: str = "", *, token: str = ""
) -> bytes:
    """The bytes of that lookup."""
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    line = f"GET {path(namespace, number)}{query} HTTP/1.1"
    return f"{line}\r\nHost: {address}\r\n{shown}\r\n".encode()


def order(topics: int) -> Iterator[int]:
    """All numbers in a seeded random order, again and again."""
    return cycle(random.Random(_SEED).sample(range(topics), topics))


@dataclass(frozen=True)
class Scene:
    """Topics of one namespace, and which of them have no owner.

    Attributes:
        unowned: topics that are redirected, since their bundles have no owner.
    """

    ring: Ring
    topics: int
    by_bundle: Mapping[Bundle, Sequence[int]]
    unowned: frozenset[int]

    @classmethod
    def of(cls, namespace: str, topics: int, bundles: int) -> "Scene":
        """Bundles are left without an owner until they hold a third of the topics."""
        ring = Ring.even(Namespace(*namespace.split("/")), bundles)
        by_bundle: dict[Bundle, list[int]] = defaultdict(list)
        for number in range(topics):
            by_bundle[ring.bundle_of(topic(namespace, number))].append(number)
        unowned: set[int] = set()
        for numbers in by_bundle.values():
            if 3 * (len(unowned) + len(numbers)) <= topics:
                unowned.update(numbers)
        return cls(ring, topics, by_bundle, frozenset(unowned))

    @property
    def namespace(self) -> str:
        """``tenant/name``."""
        return str(self.ring.namespace)

    def one_in_each_owned(self) -> list[int]:
        """A topic of every bundle that shall have an owner."""
        return [numbers[0] for numbers in self.by_bundle.values() if numbers[0] not in self.unowned]

    def redirects_among(self, asked: int) -> int:
        """How many of the first lookups are redirected."""
        return sum(number in self.unowned for number in islice(order(self.topics), asked))


def one_in_each(namespace: str, bundles: int) -> list[int]:
    """A topic of every bundle, found by trying."""
    ring = Ring.even(Namespace(*namespace.split("/")), bundles)
    found: dict[Bundle, int] = {}
    for number in count():
        found.setdefault(ring.bundle_of(topic(namespace, number)), number)
        if len(found) == bundles:
            return list(found.values())
    raise AssertionError
