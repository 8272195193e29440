"""Which release, load manager and source a run of the marked tests is about."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

_EXTENSIONS: Final = "org.apache.pulsar.broker.loadbalance.extensions"
_TABLE_VIEW: Final = "loadManagerServiceUnitStateTableViewClassName"
VERSION: Final = "PULSAR_TEST_VERSION"
MANAGER: Final = "PULSAR_TEST_MANAGER"
SOURCE: Final = "PULSAR_TEST_SOURCE"


class Manager(StrEnum):
    """The brokers' load manager; the extensible one keeps owners in a topic or in nodes."""

    MODULAR = "modular"
    EXTENSIBLE = "extensible"
    EXTENSIBLE_IN_NODES = "extensible-in-nodes"

    @property
    def settings(self) -> Mapping[str, str]:
        """Of the brokers."""
        if self is Manager.MODULAR:
            return {}
        is_in_nodes = self is Manager.EXTENSIBLE_IN_NODES
        name = "MetadataStoreTableViewImpl" if is_in_nodes else "TableViewImpl"
        return {
            # With 0, which reports at every turn, its stores of load data take their producers for
            # idle and close them at every write; one such write follows a transfer, on the thread
            # that has to read the answer, and the broker stands still until that times out.
            "loadBalancerReportUpdateMaxIntervalMinutes": "1",
            "loadManagerClassName": f"{_EXTENSIONS}.ExtensibleLoadManagerImpl",
            _TABLE_VIEW: f"{_EXTENSIONS}.channel.ServiceUnitState{name}",
        }


class Source(StrEnum):
    """Where ``attach`` reads the cluster."""

    ZOOKEEPER = "zookeeper"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Choice:
    """One cell of the matrix; without a version the one that ``pom.xml`` names."""

    version: str = ""
    manager: Manager = Manager.MODULAR
    source: Source = Source.ZOOKEEPER

    @classmethod
    def of_environment(cls) -> Self:
        """What ``tests/pulsar/run`` was asked for; only the admin API shows the extensible one."""
        manager = Manager(os.environ.get(MANAGER) or Manager.MODULAR)
        usual = Source.ZOOKEEPER if manager is Manager.MODULAR else Source.ADMIN
        source = Source(os.environ.get(SOURCE) or usual)
        return cls(os.environ.get(VERSION, ""), manager, source)
