"""The number of partitions as Pulsar writes it, and what others have added to it."""

import json
from dataclasses import replace

import pytest

from broker_ctl.errors import CorruptRecord
from broker_ctl.store.records.policies import PartitionedTopic

PATH = "/admin/partitioned-topics/t/ns/persistent/x"


def test_a_number_is_written_as_pulsar_reads_it() -> None:
    assert PartitionedTopic(4).encode() == b'{"partitions":4}'
    assert PartitionedTopic.decode(PATH, b'{"partitions" : 4}') == PartitionedTopic(4)


def test_what_newer_releases_added_survives_a_change() -> None:
    added = {"deleted": False, "properties": {"team": "a"}, "newer": [1, {"k": None}]}
    found = PartitionedTopic.decode(PATH, json.dumps({"partitions": 2, **added}).encode())
    assert found == PartitionedTopic(2, added)
    assert json.loads(replace(found, partitions=8).encode()) == {"partitions": 8, **added}


@pytest.mark.parametrize("payload", [b"{}", b'{"partitions":null}', b'{"partitions":0}'])
def test_a_topic_without_partitions_has_zero_of_them(payload: bytes) -> None:
    assert PartitionedTopic.decode(PATH, payload).partitions == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"4",
        b"[4]",
        b'{"partitions":"4"}',
        b'{"partitions":4.0}',
        b'{"partitions":true}',
        b'{"partitions":-1}',
        b'{"partitions":2147483648}',
    ],
)
def test_an_invalid_number_of_partitions_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptRecord, match=PATH):
        PartitionedTopic.decode(PATH, payload)
