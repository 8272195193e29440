"""The benchmark of lookups rehearses: its shape, and that counts agree; and its own parts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.lookups import frames, scene
from tests.benchmarks.lookups.http_line import is_whole
from tests.benchmarks.lookups.scene import Scene

SCRIPT = Path(__file__).parents[1] / "lookup.py"
ROUND = {
    *("answers", "measured", "rate", "p50_ms", "p99_ms", "max_ms"),
    *("per_cpu_s", "server_cpu_ratio", "own_cpu_ratio"),
}


def rehearsed(*parts: str) -> dict[str, Any]:
    """It fails where the daemon has counted something else than its clients."""
    only = [word for part in parts for word in ("--only", part)]
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", *only],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def rehearsal() -> dict[str, Any]:
    return rehearsed()


@pytest.mark.slow
def test_a_rehearsal_has_every_figure_and_is_marked(rehearsal: dict[str, Any]) -> None:
    figures = (
        *("http_lookups_s", "http_p99_ms_at_2000", "binary_lookups_s", "binary_p99_ms_at_2000"),
        *("bare_aiohttp_s", "http_to_bare_ratio", "bare_p99_ms_at_2000"),
    )
    assert all(rehearsal[name] > 0 for name in figures)
    assert rehearsal["is_quick"] is True
    assert rehearsal["scene"]["topics"] == 300
    assert 0.3 <= rehearsal["scene"]["redirected_ratio"] <= 1 / 3


@pytest.mark.slow
def test_a_round_answers_everything_and_a_third_by_a_redirect(rehearsal: dict[str, Any]) -> None:
    rounds = rehearsal["http_rounds"] | {
        f"binary_{name}": found for name, found in rehearsal["binary_rounds"].items()
    }
    assert len(rounds) == 6
    for name, found in rounds.items():
        (one,) = found
        assert set(one) == ROUND
        total = sum(one["answers"].values())
        # The warm-up is answered, too, and counts in no figure.
        assert 0 < one["measured"] < total
        assert 0 < one["p50_ms"] <= one["p99_ms"] <= one["max_ms"]
        if "bare" in name:
            assert one["answers"] == {"connect": total}
        else:
            assert 0.25 < one["answers"]["redirect"] / total < 0.4


@pytest.mark.slow
def test_the_secured_cluster_answers_the_same_by_turns(rehearsal: dict[str, Any]) -> None:
    secured = rehearsal["secured"]
    for name in ("http", "binary"):
        assert secured[f"{name}_secured_ratio"] > 0
        assert secured[f"{name}_secured_cpu_ratio"] > 0
        sides = secured[f"{name}_rounds"]
        for (one,) in (sides["open"], sides["secured"]):
            assert set(one) == ROUND
            assert 0.25 < one["answers"]["redirect"] / sum(one["answers"].values()) < 0.4


@pytest.mark.slow
def test_traced_clusters_answer_the_same_by_turns_and_send_their_spans(
    rehearsal: dict[str, Any],
) -> None:
    traced = rehearsal["traced"]
    assert set(traced["rounds"]) == {"off", "0", "0.01", "1"}
    for name, (one,) in traced["rounds"].items():
        assert set(one) == ROUND
        assert traced[name]["to_off_cpu_ratio"] > 0
    assert traced["off"]["to_off_ratio"] == 1
    # What waits for the collector is bounded, and the rest dropped.
    assert 0 < traced["spans"]["0.01"] < traced["spans"]["1"]


@pytest.mark.slow
def test_a_cold_namespace_is_owned_and_every_client_has_its_owner(
    rehearsal: dict[str, Any],
) -> None:
    cold = rehearsal["cold"]
    assert cold["bundles"] == 60 == sum(cold["owners"]) == sum(cold["hops"].values())
    assert 0 < cold["half_owned_s"] <= cold["all_owned_s"]
    assert cold["requests"]["200"] == 60
    assert set(cold["requests"]) <= {"200", "307", "503"}
    assert max(map(int, cold["hops"])) <= 2


def test_a_third_of_the_topics_has_no_owner_and_shares_no_bundle_with_the_rest() -> None:
    laid = Scene.of("public/lookups", 10_000, 1_000)
    assert len(laid.by_bundle) <= 1_000
    assert 3_300 < len(laid.unowned) <= 3_333
    for numbers in laid.by_bundle.values():
        assert laid.unowned.issuperset(numbers) or laid.unowned.isdisjoint(numbers)
    one_each = laid.one_in_each_owned()
    assert laid.unowned.isdisjoint(one_each)
    assert len(one_each) == sum(laid.unowned.isdisjoint(n) for n in laid.by_bundle.values())


def test_the_redirects_are_those_of_the_topics_that_were_asked() -> None:
    laid = Scene.of("public/lookups", 300, 60)
    assert laid.redirects_among(0) == 0
    assert laid.redirects_among(300) == len(laid.unowned)
    assert laid.redirects_among(750) == 2 * len(laid.unowned) + laid.redirects_among(150)


def test_one_topic_lies_in_each_bundle() -> None:
    numbers = scene.one_in_each("public/cold", 60)
    assert len(Scene.of("public/cold", max(numbers) + 1, 60).by_bundle) == len(numbers) == 60


@pytest.mark.parametrize("size", [0, 1, 200])
def test_an_answer_is_whole_with_its_last_byte(size: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\nDate: x"
    answer = f"{head}\r\n\r\n{'x' * size}".encode()
    assert [is_whole(answer[:end]) for end in range(len(answer))] == [False] * len(answer)
    assert is_whole(answer)


def test_frames_are_laid_out_as_the_reference_says() -> None:
    # LOOKUP is 23 and stands in field 23; its fields 1 and 2 are topic and request id.
    command = bytes([0x08, 23, 0xBA, 0x01, 7, 0x0A, 2, *b"ab", 0x10, 0x80, 0x01])
    assert frames.lookup("ab", 128) == bytes([0, 0, 0, 16, 0, 0, 0, 12]) + command
    (connect,), rest = frames.cut(frames.connect())
    assert (frames.type_of(connect), frames.body_of(connect)) == (2, {1: b"benchmark", 4: 21})
    assert rest == b""
    (signed_in,), _ = frames.cut(frames.connect("abc"))
    assert frames.body_of(signed_in) == {1: b"benchmark", 3: b"abc", 4: 21, 5: b"token"}


def test_frames_are_cut_wherever_the_stream_was() -> None:
    stream = frames.lookup("t" * 300, 1) + frames.pong() + frames.lookup("u", 2**40)
    for at in range(len(stream)):
        first, left = frames.cut(stream[:at])
        second, left = frames.cut(left + stream[at:])
        assert left == b""
        found = first + second
        assert [frames.type_of(one) for one in found] == [23, 19, 23]
        assert frames.body_of(found[0]) == {1: b"t" * 300, 2: 1}
        assert frames.body_of(found[2]) == {1: b"u", 2: 2**40}
