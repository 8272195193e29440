"""Breaks of the spans and digests by which a controller leaves out what a broker has."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_SPANS: Final = "core/partitions/instructions.py"
_ROWS: Final = "core/partitions/instructions.py"
_KNOWN: Final = "broker/replicas/instructions.py"
_HANDLED: Final = "broker/replicas/instructions.py"
_SENDER: Final = "controller/transport/http.py"

_REPLICAS: Final = unit("broker/replicas", "core/partitions")
_SENT: Final = unit("controller/transport", "broker/replicas/test_digests.py")

INSTRUCTIONS: Final[tuple[Mutant, ...]] = (
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
        "failed-replicas-are-confirmed",
        "I9",
        _KNOWN,
        "            if partition in failed:\n                continue\n",
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
        "a-broker-that-knows-no-digests-has-everything",
        "I9",
        _SENDER,
        "        return list(parts)  # its release does not know digests",
        "        return []",
        _SENT,
    ),
)
