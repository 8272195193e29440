"""Registrations of brokers without a daemon of ours, for each load manager of Pulsar.

Three managers write three records to the same place: LocalBrokerData (modular), LoadReport
(simple) and BrokerLookupData (extensible). Only identity and addresses are read; what the
first two say of the load is decoded elsewhere (docs: pulsar-load-data, pulsar-extensible).
"""

from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.urls import decode_listeners

_SIMPLE_TYPE: Final = "LoadReport"
_MODULAR_TYPE: Final = "LocalBrokerData"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A registered broker.

    Attributes:
        manager: class name of its load manager.
        version: of Pulsar; empty if the registration lacks it.
        has_load: whether the registration is a load report, too.
    """

    urls: BrokerUrls
    manager: str
    version: str
    has_load: bool

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload of any of the three kinds; a broker id not written is the node's name.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        shape = _manager_by_shape(fields)
        id_field = "name" if shape == SIMPLE.class_name else "brokerId"
        urls = BrokerUrls(
            fields.listed_broker_id(id_field),
            fields.optional_text("webServiceUrl"),
            fields.optional_text("webServiceUrlTls"),
            fields.optional_text("pulsarServiceUrl"),
            fields.optional_text("pulsarServiceUrlTls"),
            decode_listeners(fields),
        )
        version = fields.text("brokerVersionString", fields.text("brokerVersion", ""))
        manager = fields.text("loadManagerClassName", shape)
        return cls(urls, manager, version, has_load=shape != EXTENSIBLE.class_name)


def _manager_by_shape(fields: Fields) -> str:
    """Brokers before 3.0 do not write the class; ``underLoaded`` gives the simple one away."""
    kind = fields.text("loadReportType", "")
    if kind == _SIMPLE_TYPE or "underLoaded" in fields.values:
        return SIMPLE.class_name
    if kind == _MODULAR_TYPE or "lastStats" in fields.values:
        return MODULAR.class_name
    return EXTENSIBLE.class_name
