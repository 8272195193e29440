"""Answers to warm lookups, in bytes: one for each bundle, without its request's id.

Most LOOKUPs are for a topic of a bundle of which memory knows the owner, or that it has none and
the leader has to be asked. Their answer depends on nothing but the bundle, the listener that the
client names, and whether it came over TLS. Here it is found without an object of protobuf, without
a `Topic`, and without a word to any of the parts that know it: from the name of the namespace, by
the hash of the topic's name. Whatever is written in another way than Pulsar's clients do, or is not
here, goes the whole way through `lookups`, which keeps its answer here.

An answer holds while the version of everything that it was made of stands, and for at most
`ANSWER_LIFE_S`, after which it is made anew from entries that caches then refresh. Whether this
broker may answer at all is asked each time.
"""

import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from broker_ctl.api.binary.replies import MOST_ID_BYTES, Parts
from broker_ctl.broker.lookup.lookup import ANSWER_LIFE_S, Lookup
from broker_ctl.clock import Clock
from broker_ctl.core.model.names import Ring, Topic
from broker_ctl.security.authorization import Authorization, Client

# A LOOKUP as Pulsar's clients write it: the fields of BaseCommand and of CommandLookupTopic in the
# order of their numbers. The size of its own part, the size of the topic's name, namespace and
# topic, the request's id, and what else it asks for. Sizes of one or two bytes; names in ASCII.
_SIZE: Final = rb"[\x00-\x7f]|[\x80-\xff][\x01-\x7f]"
_MOST_LOCAL_BYTES: Final = 1_024
_LOOKUP: Final = re.compile(
    rb"\x08\x17\xba\x01(%b)\x0a(%b)(((?:non-)?persistent://[\w=:.-]+/[\w=:.-]+)/([!-.0-~]{1,%d}))"
    rb"\x10([\x80-\xff]{0,%d}[\x01-\x7f]|\x00)(.*)"
    % (_SIZE, _SIZE, _MOST_LOCAL_BYTES, MOST_ID_BYTES - 1),
    re.DOTALL,
)
_FIXED_BYTES: Final = 4  # before the size of its own part
_STEPS: Final = frozenset({b".", b".."})  # of a path; no topic has such a name
# Bounds on what strangers could fill: kinds of clients, of questions of one kind, and places for
# bundles in all.
_MOST_KINDS: Final = 1_024
_MOST_QUESTIONS: Final = 16
_MOST_PLACES: Final = 1 << 20

# The upper ends of a namespace's bundles, and an answer for each.
_Bundles = tuple[Sequence[int], list[Parts | None]]


class AnswersOf:
    """The answers for one kind of client, by what it asks beside the topic, and by namespace.

    Args:
        counts: how many were given, with an owner and with a redirect.
    """

    __slots__ = ("_by_question", "_counts")

    def __init__(self, counts: list[int]) -> None:
        self._counts = counts
        self._by_question: dict[bytes, dict[bytes, _Bundles]] = {}

    def find(self, command: bytes) -> bytes | None:
        """The frame that answers a command; None: it is not here."""
        met = _LOOKUP.fullmatch(command)
        if met is None:
            return None
        own_size, topic_size, topic, namespace, local, request_id, question = met.groups()
        asked = self._by_question.get(question)
        bundles = None if asked is None else asked.get(namespace)
        if (
            bundles is None
            or _number(topic_size) != len(topic)
            or _number(own_size) != len(command) - _FIXED_BYTES - len(own_size)
            or local in _STEPS
        ):
            return None
        ends, answers = bundles
        parts = answers[bisect_right(ends, zlib.crc32(topic))]
        if parts is None:
            return None
        heads, tail, is_redirect = parts
        self._counts[is_redirect] += 1
        return heads[len(request_id)] + request_id + tail

    def keep(self, command: bytes, topic: Topic, ring: Ring, parts: Parts) -> int:
        """Keep an answer to such commands; returns how many places it has taken."""
        met = _LOOKUP.fullmatch(command)
        # A name is compared in the form that it is hashed in.
        if met is None or met[3] != str(topic).encode():
            return 0
        if met[7] not in self._by_question and len(self._by_question) >= _MOST_QUESTIONS:
            self._by_question.clear()
        asked = self._by_question.setdefault(met[7], {})
        ends, taken = ring.boundaries, 0
        bundles = asked.get(met[4])
        if bundles is None:
            # The last hash of all is the upper end of the last bundle, and is found anew each time.
            taken = len(ends) + 1
            bundles = asked[met[4]] = (ends, [None] * taken)
        bundles[1][bisect_right(ends, topic.ring_hash)] = parts
        return taken


def _number(varint: bytes) -> int:
    return varint[0] if len(varint) == 1 else varint[0] - 0x80 + (varint[1] << 7)


class ReadyAnswers:
    """The answers of this broker that hold now, by kind of client."""

    def __init__(self, lookup: Lookup, authorization: Authorization, clock: Clock) -> None:
        self._lookup = lookup
        self._authorization = authorization
        self._clock = clock
        self._kinds: dict[tuple[str, str, bool, bool], AnswersOf] = {}
        self._version = -1
        self._until_s = 0.0
        self._places = 0
        self._counts = [0, 0]

    def take_counts(self) -> tuple[int, int]:
        """How many were answered since the last call: with an owner, and with a redirect."""
        connects, redirects = self._counts
        self._counts[:] = 0, 0
        return connects, redirects

    def of(self, client: Client | None, *, is_tls: bool) -> AnswersOf | None:
        """The answers for such clients; None: this broker may not answer now.

        They hold until the caller waits.
        """
        lookup = self._lookup
        if not lookup.is_allowed():
            return None
        version, now_s = lookup.version + self._authorization.version, self._clock.now_s()
        if version != self._version or now_s >= self._until_s or self._places > _MOST_PLACES:
            self._kinds.clear()
            self._version, self._until_s, self._places = version, now_s + ANSWER_LIFE_S, 0
        kind = (
            ("", "", False, is_tls)
            if client is None
            else (client.role, client.original, True, is_tls)
        )
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            found = self._kinds[kind] = AnswersOf(self._counts)
        return found

    def keep(
        self, command: bytes, client: Client | None, topic: Topic, parts: Parts, *, is_tls: bool
    ) -> None:
        """Keep the answer to a command, which must be right for every topic of the bundle."""
        ring = self._lookup.recall_ring(topic)
        kept = None if ring is None else self.of(client, is_tls=is_tls)
        if ring is not None and kept is not None:
            self._places += kept.keep(command, topic, ring, parts)
