"""The named scenarios, with a sentence each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "steady-skew": "Noise only; the first broker begins with four times as much as the last.",
        "diurnal": "Three regions have their days at different hours.",
        "flash-crowd": "Twice a day some tenants have four times their traffic for an hour or two.",
        "giant-bundle": "One bundle of many topics has 70 % of a mean broker's load.",
        "giant-topic": "One topic has half of a mean broker's load and cannot be split.",
        "broker-death": "A broker dies and returns four hours later; then another broker does.",
        "rolling-restart": "One broker after the other is drained, stops and returns.",
        "scale-out": "Half of the brokers carry all load until the others join.",
        "scale-in": "Half of the brokers are drained and leave; the others can carry all load.",
        "mixed-hardware": "Half, normal and double brokers; a double one is weaker each afternoon.",
        "tenant-onboarding": "Tenants that were idle move in; later a busy one leaves.",
        "flapping-consumers": "A third of the bundles lose and regain all consumers all the time.",
    }
)


def scenario_rows() -> list[dict[str, Any]]:
    """Plain JSON values, in the order of the catalogue."""
    from broker_ctl.simulation.scenarios.catalogue import NAMES, is_daily

    return [
        {"name": name, "sentence": SENTENCES[name], "is_daily": is_daily(name)} for name in NAMES
    ]
