"""Pulsar's load managers by name (broker.conf: loadManagerClassName)."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.catalog import Catalog


@dataclass(frozen=True, slots=True)
class LoadManager:
    """The load manager of a broker, as its report names it.

    Attributes:
        class_name: Pulsar's. Its brokers place nothing on one with another class than theirs.
        refusal: why no daemon can be that; empty where it can.
    """

    class_name: str
    refusal: str = ""


MODULAR: Final = LoadManager("org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl")
SIMPLE: Final = LoadManager("org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl")
# One broker that takes everything: there is no election and no report.
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
