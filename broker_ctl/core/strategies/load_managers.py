"""Pulsar's load managers by name (broker.conf: loadManagerClassName)."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.counting import Catalog


@dataclass(frozen=True, slots=True)
class LoadManager:
    """The load manager of a broker, as its report names it.

    Attributes:
        class_name: Pulsar's class name. A broker places bundles only on brokers with its own class.
        refusal: why broker-ctl does not support it; empty if it does.
    """

    class_name: str
    refusal: str = ""


MODULAR: Final = LoadManager("org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl")
SIMPLE: Final = LoadManager("org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl")
# A single broker that owns all bundles: there are no elections and no load reports.
NOOP: Final = LoadManager("org.apache.pulsar.broker.loadbalance.NoopLoadManager")
EXTENSIBLE: Final = LoadManager(
    "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
    "it keeps owners and load in system topics, which only a Pulsar broker serves; here both are "
    "in the metadata store: ModularLoadManagerImpl",
)

LOAD_MANAGERS: Final[Catalog[LoadManager]] = Catalog(
    "load manager",
    {
        "ModularLoadManagerImpl": MODULAR,
        "SimpleLoadManagerImpl": SIMPLE,
        "NoopLoadManager": NOOP,
        "ExtensibleLoadManagerImpl": EXTENSIBLE,
    },
)
