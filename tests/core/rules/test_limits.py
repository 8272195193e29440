"""The table of limits: what it reads, and what exceeds it."""

from math import inf

import pytest

from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.rules.limits import MEASURES, NO_LIMITS, BrokerLimits
from broker_ctl.errors import InvalidName

MIB = 1024 * 1024
TABLE = "small-[0-9]+:8080 usage=70 topics=5000; .* mbytes_in=200 mbytes_out=400.5"


def test_the_first_row_that_matches_a_broker_is_its_row() -> None:
    table = BrokerLimits.parse(TABLE)
    small, large = table.of("small-7:8080"), table.of("large:8080")
    assert dict(zip(MEASURES, small.most, strict=True)) == {
        **dict.fromkeys(MEASURES, inf),
        "usage": 0.7,
        "topics": 5000,
    }
    assert large.most[:3] == (inf, 200 * MIB, 400.5 * MIB)
    assert BrokerLimits.parse("a usage=1").of("b") == NO_LIMITS


def test_it_is_written_as_it_is_read() -> None:
    table = BrokerLimits.parse(TABLE)
    assert str(table) == TABLE
    assert BrokerLimits.parse(str(table)) == table
    assert str(BrokerLimits.parse(" ; ")) == ""
    assert not BrokerLimits.parse("")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (".*", "has no limit"),
        (".* disk=5", "is not one of usage, mbytes_in"),
        (".* topics=many", "'many' is not a number"),
        (".* topics=-1", "'-1' is not a number"),
        (".* topics=nan", "'nan' is not a number"),
        (".* topics=1 topics=2", "has topics twice"),
        (";".join([".* topics=1"] * 65), "65 rows, at most 64"),
    ],
)
def test_a_malformed_table_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        BrokerLimits.parse(text)


def test_a_pattern_that_may_take_too_long_is_refused() -> None:
    with pytest.raises(InvalidName, match="pattern"):
        BrokerLimits.parse("(a+)+b topics=1")


@pytest.mark.parametrize(
    ("name", "load", "says"),
    [
        ("usage=80", LoadVector(usage_ratio=0.81), "81.0% usage, its limit is 80.0% usage"),
        ("mbytes_in=1", LoadVector(bytes_in=2 * MIB), "2.0 MiB/s in, its limit is 1.0 MiB/s in"),
        (
            "mbytes_out=1",
            LoadVector(bytes_out=2 * MIB),
            "2.0 MiB/s out, its limit is 1.0 MiB/s out",
        ),
        ("msg_rate=10", LoadVector(msg_rate=11), "11 msg/s, its limit is 10 msg/s"),
        ("topics=5", LoadVector(topics=6), "6 topics, its limit is 5 topics"),
        (
            "sessions=5",
            LoadVector(sessions=6),
            "6 producers and consumers, its limit is 5 producers and consumers",
        ),
    ],
)
def test_each_limit_reads_its_own_part_of_a_load(name: str, load: LoadVector, says: str) -> None:
    limits = BrokerLimits.parse(f".* {name}").of("b")
    assert limits.excess(load) == says
    assert limits.excess(LoadVector()) is None


def test_what_is_just_at_a_limit_does_not_exceed_it() -> None:
    limits = BrokerLimits.parse(".* usage=30 topics=5").of("b")
    assert limits.excess(LoadVector(usage_ratio=0.1 + 0.2, topics=5)) is None
