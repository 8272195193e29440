"""``broker-ctl simulate`` as an operator types it, on traffic that is over at once."""

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli import replays
from broker_ctl.cli.main import main
from broker_ctl.cli.replays import Run, contestant_of
from broker_ctl.cli.simulate import SENTENCES
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.simulation.scenarios import NAMES
from broker_ctl.simulation.traces.trace_files import read_traffic
from tests.support.rules.json_units import out_of_system

SMALL = ("--hours", "1", "--brokers", "3")
SCORES: dict[str, type | tuple[type, ...]] = {
    "imbalance_p50": float,
    "imbalance_p99": float,
    "imbalance_max": float,
    "load_moved_ratio_per_h": float,
    "moves": int,
    "back_and_forth": int,
    "settled_after_s": (int, type(None)),
    "overload_broker_s": int,
}
MOVES = [
    *("scenario", "policy", "minute", "bundle", "source", "destination", "bytes_per_s"),
    *("reason", "cause"),
]
BUNDLES = 8
# Who runs the tests in the background may have SIGINT ignored, for processes of theirs as well.
INTERRUPTED_MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from broker_ctl.cli.main import main
main()
"""


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


def checked(result: Result) -> Any:
    """What is printed for a program, if it is what was promised."""
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    printed = json.loads(result.stdout)
    assert printed.keys() == {"scenarios", "imbalance_bound"}
    assert printed["imbalance_bound"].keys() == printed["scenarios"].keys()
    for policies in printed["scenarios"].values():
        for scores in policies.values():
            assert scores.keys() == SCORES.keys()
            assert list(out_of_system(scores)) == []
            assert all(isinstance(scores[name], kind) for name, kind in SCORES.items())
    return printed


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Half an hour of eight bundles, the first of them larger than all others together."""
    lines = ["minute,bundle,topics,msg_rate_in,msg_rate_out,bytes_in,bytes_out"]
    for number in range(BUNDLES):
        low, high = number * 2**29, min((number + 1) * 2**29, 2**32 - 1)
        rate = 9e7 if number == 0 else 1e7
        lines.append(f"0,shop/orders/0x{low:08x}_0x{high:08x},8,100,100,{rate},{rate}")
    lines.append(f"29,shop/orders/0x00000000_0x20000000,8,100,100,{9e7},{9e7}")
    path = tmp_path / "small.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


# What there is.


def test_scenarios_are_listed_with_a_sentence_each() -> None:
    assert tuple(SENTENCES) == NAMES
    assert simulate().stdout == simulate("--list").stdout
    shown = simulate("--output", "json")
    assert [row["name"] for row in json.loads(shown.stdout)] == list(NAMES)
    assert all(SENTENCES[name] in simulate().stdout for name in NAMES)


# Replays.


def test_policies_are_compared_side_by_side() -> None:
    arguments = ("steady-skew", *SMALL, "--policy", "threshold", "--policy", "overload")
    printed = checked(simulate(*arguments, "--output", "json"))
    policies = printed["scenarios"]["steady-skew"]
    assert list(policies) == ["threshold", "overload"]
    shown = simulate(*arguments)
    assert "no placement beats" in shown.stdout
    for name, scores in policies.items():
        (row,) = (line.split() for line in shown.stdout.splitlines() if f" {name} " in line)
        assert row[:4] == [
            name,
            *(f"{scores[f'imbalance_{key}']:.3f}" for key in ("p50", "p99", "max")),
        ]


def test_settings_are_tried_out(trace: Path) -> None:
    base = ("--trace", trace, "--brokers", "3", "--output", "json")
    default = checked(simulate(*base))["scenarios"]["small"]["balance"]
    still = ("--set", "loadBalancerEnabled=false")
    frozen = checked(simulate(*base, *still))["scenarios"]["small"]["settings"]
    assert default["moves"] > 0
    assert frozen["moves"] == 0
    assert default["imbalance_p99"] < frozen["imbalance_p99"]


def test_settings_stand_beside_what_they_are_compared_with(trace: Path) -> None:
    policies = ("--policy", "settings", "--policy", "balance")
    base = ("--trace", trace, "--brokers", "3", "--output", "json")
    still = ("--set", "loadBalancerEnabled=false")
    scores = checked(simulate(*base, *policies, *still))["scenarios"]["small"]
    assert scores["settings"]["moves"] == 0 < scores["balance"]["moves"]


def test_settings_that_say_nothing_are_the_planner_as_it_is_by_default() -> None:
    settings, default = (
        contestant_of("settings", None, {}, ()),
        contestant_of("balance", None, {}, ()),
    )
    assert settings.pace == default.pace
    for field in fields(CycleRules):
        assert getattr(settings.rules, field.name) == getattr(default.rules, field.name)


def test_a_file_of_settings_counts_and_the_command_line_over_it(
    tmp_path: Path, trace: Path
) -> None:
    configuration = tmp_path / "broker.conf"
    configuration.write_text("loadBalancerEnabled=false\n")
    base = ("--trace", trace, "--brokers", "3", "--output", "json", "--config", configuration)
    assert checked(simulate(*base))["scenarios"]["small"]["settings"]["moves"] == 0
    over = checked(simulate(*base, "--set", "loadBalancerEnabled=true"))
    assert over["scenarios"]["small"]["settings"]["moves"] > 0


def test_events_happen_to_the_brokers_of_a_trace(tmp_path: Path, trace: Path) -> None:
    events, moves = tmp_path / "events.csv", tmp_path / "moves.csv"
    events.write_text("minute,broker,event\n5,broker-1,down\n")
    base = ("--trace", trace, "--brokers", "3", "--policy", "overload")
    checked(simulate(*base, "--events", events, "--moves", moves, "--output", "json"))
    with moves.open() as file:
        rows = [row for row in csv.DictReader(file) if row["cause"] == "death"]
    assert rows
    assert {row["source"] for row in rows} == {"broker-1"}


def test_processes_come_to_the_same_scores() -> None:
    arguments = ("steady-skew", *SMALL, "--policy", "threshold", "--policy", "avg")
    alone = checked(simulate(*arguments, "--output", "json"))
    together = checked(simulate(*arguments, "--jobs", "2", "--output", "json"))
    assert together == alone
    assert list(together["scenarios"]["steady-skew"]) == ["threshold", "avg"]


@pytest.mark.parametrize(
    ("jobs", "moment"),
    [("1", rb"[1-9]%"), pytest.param("2", rb"[1-9]%", marks=pytest.mark.slow), ("2", rb"0%")],
)
def test_an_interrupt_ends_it_under_its_bar(tmp_path: Path, jobs: str, moment: bytes) -> None:
    screen, terminal = os.openpty()
    with subprocess.Popen(
        [
            *(sys.executable, "-c", INTERRUPTED_MAIN, "simulate"),
            *("diurnal", "--hours", "48", "--jobs", jobs),
            *("--policy", "threshold", "--policy", "avg", "--moves", "moves.csv"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=terminal,
        start_new_session=True,
    ) as process:
        os.close(terminal)
        shown = b""
        try:
            while not re.search(moment, shown):
                shown += os.read(screen, 4096)
            # As from a keyboard: to all processes of it at once.
            os.killpg(process.pid, signal.SIGINT)
            out, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    with suppress(OSError):
        # Nobody has the terminal any more: the end of what was shown is an error.
        while more := os.read(screen, 4096):
            shown += more
    os.close(screen)
    assert (process.returncode, out) == (130, b"")
    assert b"2 replays of 2880 minutes" in shown
    assert b"Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_begun_is_not_begun_by_halves() -> None:
    """Ctrl-C reaches a thread that has not blocked it, and Python handles it in the main one."""
    begun: list[str] = []
    drawn = threading.Event()
    drawing = threading.Thread(target=drawn.wait, name="a bar")
    receiver, sender = socket.socketpair()
    sender.settimeout(0.0)

    class Pool:
        def submit(self, _: object, run: str) -> None:
            signal.pthread_kill(drawing.ident or 0, signal.SIGINT)
            # The signal has come; its handler is called as soon as Python may.
            assert receiver.recv(1)
            begun.append(run)

    drawing.start()
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    woken = signal.set_wakeup_fd(sender.fileno())
    try:
        pool, runs = cast("ProcessPoolExecutor", Pool()), cast("list[Run]", ["a", "b"])
        with pytest.raises(KeyboardInterrupt):
            replays._submit(pool, runs)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGINT, usual)
        drawn.set()
        drawing.join()
        receiver.close()
        sender.close()
    assert begun == ["a", "b"]


# Files.


def test_each_move_is_a_row(tmp_path: Path, trace: Path) -> None:
    moves = tmp_path / "moves.csv"
    base = ("--trace", trace, "--brokers", "3", "--policy", "threshold", "--output", "json")
    scores = checked(simulate(*base, "--moves", moves))["scenarios"]["small"]["threshold"]
    with moves.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == scores["moves"] > 0
    assert list(rows[0]) == MOVES
    assert rows[0]["bundle"].startswith("shop/orders/0x")
    assert rows[0]["source"] != rows[0]["destination"]
    assert sorted(tmp_path.iterdir()) == [moves, trace]


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path, trace: Path) -> None:
    picture = tmp_path / "plot.svg"
    picture.write_text("mine")
    arguments = ("--trace", trace, "--policy", "overload", "--plot", picture)
    refused = simulate(*arguments)
    assert refused.exit_code == 2
    assert "exists; --force replaces it" in refused.stderr
    assert picture.read_text() == "mine"
    assert simulate(*arguments, "--force").exit_code == 0
    assert picture.read_text().startswith("<svg ")


def test_what_is_read_is_not_written_over(trace: Path) -> None:
    before = trace.read_bytes()
    refused = simulate("--trace", trace, "--moves", trace, "--force", "--policy", "overload")
    assert refused.exit_code == 2
    assert f"{trace} is read" in refused.stderr
    assert trace.read_bytes() == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_exported_trace_is_the_scenario(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"diurnal{suffix}"
    assert simulate("diurnal", *SMALL, "--export-trace", path).output == ""
    assert read_traffic(path).minutes == 60
    assert list(tmp_path.iterdir()) == [path]


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such",), "'no-such'; one of steady-skew, diurnal"),
        (("diurnal", "--policy", "best"), "'best'; one of settings, balance"),
        (("diurnal", "--all"), "either scenarios or --all"),
        (("--policy", "avg"), "nothing to replay: name scenarios, or use --all or --trace"),
        (("diurnal", "--policy", "avg", "--set", "a=b"), "are for --policy settings"),
        (("diurnal", "--events", "EMPTY"), "--events requires --trace"),
        (("diurnal", "--trace", "EMPTY"), "either scenarios or --trace"),
        (("--trace", "EMPTY", "--hours", "24"), "for scenarios, not for --trace"),
        (("diurnal", "--plot", "x.png"), "a name that ends in .svg"),
        (("diurnal", "--moves", "none/x.csv"), "not a file in an existing directory"),
        (("diurnal", "--export-trace", "x.csv", "--plot", "x.svg"), "without --plot and --moves"),
        (("diurnal", "flash-crowd", "--export-trace", "x.csv"), "requires exactly one scenario"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    empty = tmp_path / "EMPTY"
    empty.touch()
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == [empty]


def test_a_bad_line_of_a_trace_is_named(trace: Path) -> None:
    with trace.open("a") as file:
        file.write("x,shop/orders/0x00000000_0x20000000,8,1,1,1,1\n")
    result = simulate("--trace", trace)
    assert result.exit_code == 1
    assert f"{trace}:{BUNDLES + 3}: minute 'x': a whole number" in result.stderr


def test_a_bad_setting_or_size_is_named() -> None:
    result = simulate("diurnal", "--set", "loadBalancerPlannerHighPercentage=1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "loadBalancerPlannerHighPercentage=1: allowed" in result.stderr
    result = simulate("diurnal", "--brokers", "1", "--policy", "avg")
    assert result.exit_code == 1
    assert "1 brokers; 2 to" in result.stderr


def test_help_shows_an_example() -> None:
    assert "broker-ctl simulate" in simulate("--help").stdout.partition("Example")[2]
