"""Breaks of the spans and digests by which a controller leaves out what a broker has."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_SPANS: Final = "core/partitions/replica_spans.py"
_ROWS: Final = "core/partitions/instructions.py"
_KNOWN: Final = "broker/replicas/known_replicas.py"
_HANDLED: Final = "broker/replicas/instructions.py"
_MESSAGES: Final = "controller/transport/messages.py"
_SENDER: Final = "controller/transport/http_sender.py"

_REPLICAS: Final = unit("broker/replicas", "core/partitions")
_SENT: Final = unit("controller/transport", "broker/replicas/test_digests.py")

INSTRUCTIONS: Final[tuple[Mutant, ...]] = (
    plant(
        "spans-begin-with-their-end",
        "I9",
        _SPANS,
        "begin = 0 if after is None else bisect_right(ordered, after)",
        "begin = 0 if after is None else max(0, bisect_right(ordered, after) - 1)",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "spans-end-before-their-last",
        "I9",
        _SPANS,
        "end = len(ordered) if until is None else bisect_right(ordered, until)",
        "end = len(ordered) if until is None else bisect_right(ordered, until) - 1",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "digests-without-what-separates-rows",
        "I9",
        _SPANS,
        'blake2b(b",".join(rows)',
        'blake2b(b"".join(rows).replace(b",", b"")',
        _REPLICAS,
        _SENT,
    ),
    plant(
        "digests-without-the-leader-epoch",
        "I9",
        _ROWS,
        "return [topic, partition, topic_id, leader, leader_epoch, replicas, min_isr, adding]",
        "return [topic, partition, topic_id, leader, replicas, min_isr, adding]",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "digests-without-the-topic-id",
        "I9",
        _ROWS,
        "return [topic, partition, topic_id, leader, leader_epoch, replicas, min_isr, adding]",
        "return [topic, partition, leader, leader_epoch, replicas, min_isr, adding]",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "digests-without-min-isr",
        "I9",
        _ROWS,
        "return [topic, partition, topic_id, leader, leader_epoch, replicas, min_isr, adding]",
        "return [topic, partition, topic_id, leader, leader_epoch, replicas, adding]",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "digests-without-the-leader",
        "I9",
        _ROWS,
        "return [topic, partition, topic_id, leader, leader_epoch, replicas, min_isr, adding]",
        "return [topic, partition, topic_id, leader_epoch, replicas, min_isr, adding]",
        _REPLICAS,
        _SENT,
    ),
    plant(
        "a-new-state-stays-confirmed",
        "I9",
        _KNOWN,
        "        if partition in confirmed:\n            del confirmed[partition]\n",
        "",
        _REPLICAS,
    ),
    plant(
        "what-may-have-been-stopped-stays-confirmed",
        "I9",
        _HANDLED,
        "        self._replicas.doubt(stop.partition for stop in allowed)\n",
        "",
        _REPLICAS,
    ),
    plant(
        "what-was-ended-in-doubt-stays-confirmed",
        "I9",
        _HANDLED,
        "        self._replicas.doubt(stop.partition for stop in stops)\n",
        "",
        _REPLICAS,
    ),
    plant(
        "failed-replicas-are-confirmed",
        "I9",
        _KNOWN,
        "            if partition in failed:\n                continue\n",
        "",
        _REPLICAS,
    ),
    plant(
        "listed-failures-stay-confirmed",
        "I9",
        _HANDLED,
        "        self._replicas.doubt(self._failed.reasons)\n",
        "",
        _REPLICAS,
    ),
    plant(
        "what-is-not-confirmed-is-left-out-of-the-digest",
        "I9",
        _KNOWN,
        'rows = [confirmed.get(each, b"") for each in self.within(span.after, span.until)]\n'
        "        return all(rows) and digest_of(rows) == span.digest",
        "rows = [\n            confirmed[each]\n"
        "            for each in self.within(span.after, span.until)\n"
        "            if each in confirmed\n        ]\n"
        "        return digest_of(rows) == span.digest",
        _REPLICAS,
    ),
    plant(
        "removed-replicas-stay-sorted",
        "I9",
        _KNOWN,
        "        if self._replicas.pop(partition, None) is not None:\n"
        "            self._ordered = None\n",
        "        self._replicas.pop(partition, None)\n",
        _REPLICAS,
    ),
    plant(
        "new-replicas-are-not-sorted-in",
        "I9",
        _KNOWN,
        "        if partition not in replicas:\n            self._ordered = None\n",
        "",
        _REPLICAS,
    ),
    plant(
        "digests-are-taken-without-the-turn",
        "I3 I9",
        _HANDLED,
        "        async with self._lock:\n            broker_epoch = self._check(instruction)\n"
        "            if instruction.spans:\n",
        "        if instruction.spans:\n"
        "            return Handled(0, differing=await self._compare(instruction))\n"
        "        async with self._lock:\n            broker_epoch = self._check(instruction)\n"
        "            if instruction.spans:\n",
        _REPLICAS,
    ),
    plant(
        "a-broker-that-knows-no-digests-has-everything",
        "I9",
        _SENDER,
        "        return list(parts)  # its release does not know digests",
        "        return []",
        _SENT,
    ),
    plant(
        "an-answer-without-spans-differs-nowhere",
        "I9",
        _SENDER,
        'answer.get("differing", range(len(parts)))',
        'answer.get("differing", ())',
        _SENT,
    ),
    plant(
        "updates-that-cannot-be-compared-are-left-out",
        "I9",
        _MESSAGES,
        'digest_of(rows) if all(rows) else ""',
        "digest_of(filter(None, rows))",
        _SENT,
    ),
    plant(
        "parts-do-not-meet",
        "I9",
        _MESSAGES,
        "            after, chunk = until, following\n",
        "            after, chunk = next(iter(following)), following\n",
        _SENT,
    ),
    plant(
        "digests-of-deleted-topics",
        "I9",
        _MESSAGES,
        "if isinstance(request, PartitionUpdate) and ids.get(partition[0]) == request.topic_id",
        "if isinstance(request, PartitionUpdate) and partition[0] in ids",
        _SENT,
    ),
)
