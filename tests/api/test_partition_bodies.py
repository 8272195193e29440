"""Bodies that are nearly right: partition routes answer them, and change nothing if they refuse."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from broker_ctl.http_client import HttpClient
from tests.api.control.test_partitions import ALL, LISTS, TOPIC
from tests.api.http.test_odd_requests import ODD, REFUSALS
from tests.support.clusters.fake_services import Broker

SEEDS = range(4)
BODIES = 40
# Redirects go to a controller, which is here.
DEEP: Any = json.loads("[" * 200 + "]" * 200)
HUGE = [10**400, -(10**400), 1e308, float("nan"), float("inf"), 2**31, 2**63, DEEP]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each part of a JSON value, itself first."""
    yield above
    match value:
        case dict():
            for key, part in value.items():
                yield from places(part, (*above, key))
        case list():
            for index, part in enumerate(value):
                yield from places(part, (*above, index))


def changed(body: Any, rng: random.Random) -> Any:
    """A part that is another, is gone, is named twice, or has company."""
    way = rng.choice(list(places(body)))
    if not way:
        return rng.choice([*ODD, *HUGE])
    found = copy.deepcopy(body)
    *to, last = way
    inside = found
    for key in to:
        inside = inside[key]
    match rng.randrange(4):
        case 0:
            inside[last] = rng.choice([*ODD, *HUGE])
        case 1:
            del inside[last]
        case 2 if isinstance(inside, dict):
            inside[rng.choice(["", "x", "partitions", "99999999999", "-1", "\u0663", "0 "])] = (
                rng.choice([*ODD, *HUGE])
            )
        case _:
            inside[last] = [inside[last]] * rng.choice([0, 2, 300])
    return found


def bodies(body: Any, rng: random.Random) -> Iterator[bytes]:
    for _ in range(BODIES):
        found = body
        for _ in range(rng.randint(1, 3)):
            found = changed(found, rng) if isinstance(found, dict) else found
        data = json.dumps(found).encode()
        match rng.randrange(6):
            case 0:
                cut = rng.randrange(len(data) + 1)
                data = data[:cut] + rng.choice([b"\xff", b"\x00", b"\xed\xa0\x80", b""])
            case 1 if data.startswith(b'{"'):
                # Which of two of a name counts is the decoder's; that one is judged.
                data = b'{"partitions": -1, ' + data[1:]
        yield data


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_body_is_obeyed_or_refused_and_then_nothing_is_changed(
    leader: Broker, http: HttpClient, seed: int
) -> None:
    rng, admin = random.Random(seed), leader.partition_admin
    assert (await http.request("PUT", leader.url + TOPIC, json=LISTS)).status == 200
    broken: list[tuple[str, str, bytes, object]] = []
    refused = obeyed = 0
    for method, path, body in (one for one in ALL if one[2] is not None):
        for data in bodies(body, rng):
            before = copy.deepcopy(admin.written)
            reply = await http.request(method, leader.url + path, content=data)
            if reply.status < 300:
                obeyed += 1
                continue
            refused += 1
            if reply.status not in REFUSALS or not reply.json()["reason"]:
                broken.append((method, path, data[:200], reply.status))
            elif admin.written != before:
                broken.append((method, path, data[:200], admin.written[len(before) :]))
    assert broken == []
    assert obeyed > 5
    assert refused > 100
