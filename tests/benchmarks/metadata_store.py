"""Compare the metadata store with other clients: throughput, latency, and a storm (PIP-453).

Runs an ensemble of three ZooKeeper servers of its own, below a temporary directory and on loopback;
the machine should be otherwise idle. Takes less than ten minutes. Every client measures in a
process of its own, on uvloop. No client caches or coalesces requests. It prints:

throughput_ops_s         requests a second by kind (get, set, create) and client (the store, aiozk,
                         kazoo), with 2,000 outstanding; `raw`: requests of 200 operations that were
                         packed before, on one socket, without callers and values;
                         throughput_range_ops_s: least and most
latency_ms               by rate: p50 and p99 of a get through the store, and directly by the
                         ZooKeeper client below it; added_p50_ms: the difference of the medians
storm                    20,000 topics are loaded, 500 at a time, while others use the store: 99th
                         percentiles of the wait of interactive and control requests for their
                         batch, of that of bulk requests, of an interactive get, of a write in the
                         control class and of the delay of a timer, and topics a second;
                         `bystander`: a client with a process and connection of its own;
                         `unbounded`: the store without window and limits; `old_model`: Pulsar's
                         store before PIP-453; `crowd`: both with 5,000 loads at a time, as many
                         as a Pulsar broker has by its defaults
secured                  gets and sets a second with SASL and access control, with TLS, and with
                         both, in turns with the plain store at the same server, and their ratios;
                         `cpu_ratio`: of what the client does in a second of its own CPU;
                         `raw_tls_ratio`: what TLS costs a bare transport that sends prepared frames
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

PARTS: Final = ("throughput", "latency", "storm", "secured")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on stdout, in one line"
    )
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="measure only this part; repeatable"
    )
    parser.add_argument("--heap", default="1g", help="largest Java heap of a server (1g)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a rehearsal with small counts; its figures mean nothing",
    )
    arguments = parser.parse_args()
    # Run by its path, the script does not find the package that it belongs to.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from broker_ctl.codec import encode, encode_pretty
    from tests.benchmarks.machine.load import with_machine_load
    from tests.benchmarks.store.course import heap_mb_of, run

    # As Ctrl-C: everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = tuple(arguments.only or PARTS)
    try:
        found = with_machine_load(
            lambda: asyncio.run(run(parts, heap_mb_of(arguments.heap), is_quick=arguments.quick))
        )
    except KeyboardInterrupt:
        sys.exit(130)
    text = encode(found) if arguments.json else encode_pretty(found)
    sys.stdout.write(text.decode() + "\n")


if __name__ == "__main__":
    main()
