"""The live table of quickstart, in terminals of several sizes."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from broker_ctl.cli.status_screen import DemoSnapshot, render_demo
from broker_ctl.lab.embedded.load_client import LoadClientStatistics

URLS = ["http://127.0.0.1:40001", "http://127.0.0.1:40002"]


def overview(brokers: int, bundles: int) -> dict[str, Any]:
    rates = {"msg_per_s": 1000.0, "throughput_bytes_per_s": 2.0 * 1024 * 1024}
    return {
        "leader": "127.0.0.1:40000",
        "epoch": 1,
        "cycle": 7,
        "usage_imbalance": 1.25,
        "brokers": [
            {
                "broker": f"127.0.0.1:{40000 + number}",
                "usage_ratio": 0.5,
                "is_draining": False,
                **rates,
            }
            | {"bundles": 9}
            for number in range(brokers)
        ],
        "bundles": [
            {
                "bundle": f"public/default/0x{number:08x}_0x{number + 1:08x}",
                "owner": "127.0.0.1:40000",
                "msg_per_s": 10.0,
                "throughput_bytes_per_s": float(number),
                "topics": 1,
            }
            for number in range(bundles)
        ],
        "decisions": [
            {"result": "done", "sentence": f"decision {number}: because of " + "load " * 30}
            for number in range(50)
        ],
    }


def lines(picture: DemoSnapshot, width: int, height: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, height=height).print(render_demo(picture, height))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("bundles", [4, 30, 300])
def test_the_newest_stays_in_sight(size: tuple[int, int], brokers: int, bundles: int) -> None:
    width, height = size
    client = LoadClientStatistics(lookups=10, failures=1)
    picture = DemoSnapshot(
        overview(brokers, bundles),
        client,
        URLS,
        ended=["127.0.0.1:40001 has ended with exit code -9: /x/broker-2.log"],
        replicated={
            "partitions": 12,
            "offline": 0,
            "under_replicated": 0,
            "broker": 1,
            "brokers": [{"broker": 1, "leaders": 12}],
        },
    )
    drawing = lines(picture, width, height)
    text = "\n".join(drawing)
    assert len(drawing) < height
    assert "decision 0:" in text
    assert "127.0.0.1:40000" in text
    assert "lookups 10, failed 1" in text
    assert "Ctrl-C" in text
    assert "--url http://127.0.0.1:40001" in text
    assert drawing[-1].startswith("console: http://127.0.0.1:40001/ui/")
    assert "has ended with exit code -9" in text
    # Of more bundles than there is room for, those with the most traffic.
    assert f"0x{bundles:08x}" in text
    assert f"{bundles} bundles" in text


def test_before_the_first_picture_it_says_so() -> None:
    client = LoadClientStatistics()
    assert lines(DemoSnapshot({}, client, URLS), 80, 24) == [
        "waiting for the leader's first overview"
    ]
