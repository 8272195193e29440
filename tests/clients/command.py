"""What `tests/clients/run` does: the calls of foreign clients at our daemons, beside a real Pulsar.

    tests/clients/run [--json] [--client java|go|pulsarctl|rust ...] [--java VERSION] [--record]

What a real Pulsar of the release in tests/pulsar/pom.xml answers is recorded beside this file;
``--record`` starts one and writes it again. The exit code is 1 where a call ends otherwise than at
a real Pulsar without a reason in ``reasons.toml``, or equal although there is one, and 2 where a
client cannot be had.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.clients.calls import Outcome, Row, Verdict, compared, counts, reasons_of, table
from tests.clients.command_line import CommandLine
from tests.clients.programs import PROGRAMS, ClientMissing, Program, java_of
from tests.clients.targets import our_daemons, real_pulsar
from tests.support.pulsar.distribution import PulsarMissing, distribution

_HERE: Final = Path(__file__).parent
_MISSING: Final = 2
_JAVA: Final = "java"
Programs = Mapping[str, Program | CommandLine]
_WRONG: Final = frozenset({Verdict.UNEXPLAINED, Verdict.STALE})


def _recorded(client: str) -> Path:
    return _HERE / "recorded" / f"{client}.json"


def _programs(asked: argparse.Namespace, directory: Path) -> dict[str, Program | CommandLine]:
    """By client; a Java client of another release is one of its own, ``java-VERSION``."""
    if asked.java:
        return {f"{_JAVA}-{asked.java}": java_of(asked.java)}
    return {client: PROGRAMS[client](directory) for client in asked.client or PROGRAMS}


def main(arguments: Sequence[str]) -> int:
    """Run; the exit code."""
    asked = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="broker-ctl-clients-") as scratch:
        directory = Path(scratch)
        try:
            programs = _programs(asked, directory)
            if asked.record:
                _record(programs, directory)
            found = asyncio.run(_compare(programs, directory))
        except (ClientMissing, PulsarMissing) as error:
            sys.stderr.write(f"{error}\n")
            return _MISSING
    if asked.json:
        sys.stdout.write(json.dumps(_report(found, programs), ensure_ascii=False) + "\n")
    else:
        for client, rows in found.items():
            sys.stdout.write(f"{client} {programs[client].version}: {counts(rows)}\n")
            sys.stdout.write(table(rows) + "\n")
    return int(any(row.verdict in _WRONG for rows in found.values() for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tests/clients/run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--client", action="append", choices=list(PROGRAMS), help="only this one")
    which.add_argument(
        "--java",
        metavar="VERSION",
        help="only PulsarAdmin and the Java client of another release, at the same Pulsar",
    )
    parser.add_argument("--record", action="store_true", help="ask a real Pulsar again")
    return parser


def _record(programs: Programs, directory: Path) -> None:
    """Each client has a cluster of its own: what one leaves, the other would find."""
    pulsar = distribution()
    for client, program in programs.items():
        with real_pulsar(directory / f"pulsar-{client}", pulsar) as target:
            outcomes = program.run(target)
        rows = {call: outcome.to_row() for call, outcome in outcomes.items()}
        content = {"pulsar": pulsar.version, "client": program.version, "calls": rows}
        text = json.dumps(content, ensure_ascii=False, indent=1)
        _recorded(client).write_text(text + "\n", encoding="utf-8")


async def _compare(programs: Programs, directory: Path) -> dict[str, list[Row]]:
    reasons = tomllib.loads((_HERE / "reasons.toml").read_text(encoding="utf-8"))
    found = {}
    for client, program in programs.items():
        ours = directory / f"ours-{client}"
        ours.mkdir()
        async with our_daemons(ours) as target:
            outcomes = await asyncio.to_thread(program.run, target)
        recorded = json.loads(_recorded(client).read_text(encoding="utf-8"))["calls"]
        pulsars = {call: Outcome.of_row(row) for call, row in recorded.items()}
        found[client] = compared(outcomes, pulsars, reasons_of(client, reasons))
    return found


def _report(found: Mapping[str, list[Row]], programs: Programs) -> dict[str, Any]:
    return {
        client: {
            "version": programs[client].version,
            **counts(rows),
            "calls": [row.to_row() for row in rows],
        }
        for client, rows in found.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
