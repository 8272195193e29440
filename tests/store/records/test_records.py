import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Merge, Reason, Split, Transfer, Unload
from broker_ctl.core.cluster.directives import (
    AuditInfo,
    Drain,
    DrainTerms,
    MaintenanceWindow,
    Pause,
)
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, LookupUrls
from broker_ctl.core.model.load import (
    NO_LOAD,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.planning.approval import ApprovalState, Fate
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store.records.broker_ctl import LeadEpoch, LeaseRecord, MoveNode, Registration
from broker_ctl.store.records.directives import (
    DrainRecord,
    PauseRecord,
    PlanProgress,
    PlanRecord,
    WindowRecord,
)
from broker_ctl.store.records.load import BundleData, LocalBrokerData, TimeAverageBrokerData
from broker_ctl.store.records.ownership import LeaderBroker, NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies, PoliciesRecord

BUNDLE = "public/default/0x00000000_0x40000000"
URLS = BrokerUrls(
    "broker-1:8080",
    web_url="http://broker-1:8080",
    native_url="pulsar://broker-1:6650",
    listeners=(AdvertisedListener("internal", "pulsar://10.0.0.1:6650"),),
)
REPORT = LocalBrokerData(
    URLS,
    BrokerLoad(
        "broker-1:8080",
        SystemUsage(
            cpu=ResourceUsage(123, 800),
            memory=ResourceUsage(1024.0, 2048.0),
            bandwidth_in=ResourceUsage(1000.0, 1e7),
        ),
        {BUNDLE: BundleStats(100.5, 1, 2, 3, topics=3, producers=4, consumers=5)},
        updated_ms=1795191680056,
        started_ms=1795191680000,
        version="4.0.0",
    ),
    gains=(BUNDLE,),
)
ORDER = AuditInfo(1795191680056, "anna", "kernel update")
FIRST, SECOND = Bundle.parse(BUNDLE), Bundle.parse("public/default/0x40000000_0x80000000")
PLANNED = (
    Assign(FIRST, "b:1", Reason.UNOWNED, "why"),
    Unload(FIRST, "a:1", Reason.DRAIN, "why"),
    Transfer(*(FIRST, "a:1", "b:1", Reason.OVERLOADED, "why"), *(NO_LOAD,) * 3),
    Split(FIRST, "a:1", "range_equally_divide", (0x20000000,), Reason.TOPICS, "why"),
    Merge(FIRST, SECOND, "a:1", Reason.COLD, "why"),
)
MOVE = MoveNode("m-1", Bundle.parse(BUNDLE), 7, "a:1", 99, "b:1", 1795191680056, 3)
OURS = [
    Registration("n", 30000, 1795191680056, BrokerUrls("b:1", "http://broker-1:8080")),
    Registration("n", 30000, 1795191680056, BrokerUrls("b:1"), is_draining=True),
    Registration("n", 1, 2, BrokerUrls("b:1", admin_url="http://b:2", admin_url_tls="https://b:3")),
    Registration(
        *("n", 30000, 1795191680056, BrokerUrls("b:1")),
        lookup_urls=LookupUrls(
            "pulsar://b:6655",
            "pulsar+ssl://b:6656",
            (AdvertisedListener("ext", "pulsar://e:6655"),),
        ),
    ),
    Registration("n", 30000, 1795191680056, BrokerUrls("b:1"), rack="zone-a"),
    LeaseRecord("n", 12),
    LeadEpoch(7, "broker-1:8080"),
    MOVE,
    PauseRecord(Pause(ORDER)),
    PauseRecord(Pause(ORDER, is_automatic=True, lost=("a:1", "b:1"))),
    DrainRecord(Drain(ORDER, 12, 5e8, 9_000, "0af3")),
    WindowRecord(MaintenanceWindow(ORDER, DrainTerms(5, 9, until_restart=True, is_forced=True))),
    PlanRecord("0123456789ab", 7, ORDER, PLANNED),
    PlanProgress(ApprovalState.CARRYING_OUT, (Fate.DONE, Fate.WAITING), 1795191680056, "why"),
]
EVERY = [
    LocalPolicies((0, 0x40000000, 0xFFFFFFFF), "group-a", {"migrated": False}),
    PoliciesRecord((0, 0xFFFFFFFF), {"retention_policies": {"retentionSizeInMB": 1}}),
    PoliciesRecord(None, {"deleted": False}),
    NamespaceEphemeralData(URLS),
    LeaderBroker("broker-1:8080", "http://broker-1:8080"),
    REPORT,
    BundleData(BundleLoad.unseen().fold(BundleStats(1.0, 2.0, 3.0, 4.0, topics=5))),
    TimeAverageBrokerData(*(float(n) for n in range(8))),
    *OURS,
]
JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def decoder(record: Any) -> Callable[[str, bytes], Any]:
    decode: Callable[[str, bytes], Any] = type(record).decode
    return decode


@pytest.mark.parametrize("record", EVERY, ids=lambda record: type(record).__name__)
def test_what_was_written_is_read_back(record: Any) -> None:
    assert decoder(record)("/x/b:1", record.encode()) == record


def paths_within(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return []
    return [(name, *rest) for name, inner in value.items() for rest in [(), *paths_within(inner)]]


def place_of_complaint(record: Any, data: bytes) -> str:
    """The place at which decoding found a fault; the given place if it found none."""
    try:
        decoder(record)("/some/node", data)
    except (CorruptRecord, NewerVersion) as error:
        return str(error)
    return "/some/node"


@settings(max_examples=50)
@given(data=st.data())
@pytest.mark.parametrize("record", EVERY, ids=lambda record: type(record).__name__)
def test_any_value_of_a_field_is_read_or_is_corrupt(record: Any, data: st.DataObject) -> None:
    payload = json.loads(record.encode())
    *way, last = data.draw(st.sampled_from(paths_within(payload)))
    within = payload
    for step in way:
        within = within[step]
    within[last] = data.draw(JSON_VALUE)
    assert "/some/node" in place_of_complaint(record, json.dumps(payload).encode())


@pytest.mark.parametrize("record", EVERY, ids=lambda record: type(record).__name__)
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"null", b"\xff"])
def test_a_payload_that_is_not_an_object_is_corrupt(record: Any, data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="/some/node"):
        decoder(record)("/some/node", data)


def test_a_corrupt_field_is_named_with_its_place() -> None:
    data = b'{"bundles":{"boundaries":["0x00000000",1]}}'
    with pytest.raises(CorruptRecord, match=r"/x: bundles\.boundaries: must be a list of strings"):
        LocalPolicies.decode("/x", data)


@pytest.mark.parametrize("record", OURS, ids=lambda record: type(record).__name__)
def test_a_newer_format_of_ours_is_refused(record: Any) -> None:
    payload = json.loads(record.encode())
    assert payload["version"] == 1
    payload["version"] = 2
    with pytest.raises(NewerVersion, match="newer broker-ctl"):
        decoder(record)("/x/b:1", json.dumps(payload).encode())


def test_local_policies_hand_on_what_is_not_ours() -> None:
    written = {
        "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        "namespaceAntiAffinityGroup": "group-a",
        "bookieAffinityGroup": {"bookkeeperAffinityGroupPrimary": "p"},
        "migrated": False,
        "fieldOfTheFuture": [1, {"a": None}],
    }
    read = LocalPolicies.decode("/x", json.dumps(written).encode())
    split = replace(read, boundaries=(0, 0x80000000, 0xFFFFFFFF))
    assert json.loads(split.encode()) == written | {
        "bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2},
    }


def test_local_policies_without_bundles_are_one_bundle() -> None:
    ring = LocalPolicies.decode("/x", b'{"bundles":null}').ring(Namespace.parse("a/b"), 4)
    assert [str(bundle) for bundle in ring.bundles] == ["a/b/0x00000000_0xffffffff"]
    assert ring.version == 4


@pytest.mark.parametrize(
    "boundaries",
    [[], ["0x00000000"], ["0x1", "0xffffffff"], ["0x0", "0x2", "0x2", "0xffffffff"], ["x", "y"]],
)
def test_boundaries_that_do_not_form_a_ring_are_corrupt(boundaries: list[str]) -> None:
    data = json.dumps({"bundles": {"boundaries": boundaries}}).encode()
    for record in (LocalPolicies, PoliciesRecord):
        with pytest.raises(CorruptRecord, match="boundaries"):
            record.decode("/x", data)


def test_owner_record_has_pulsars_fields_and_no_nulls() -> None:
    assert json.loads(NamespaceEphemeralData(URLS).encode()) == {
        "brokerId": "broker-1:8080",
        "nativeUrl": "pulsar://broker-1:6650",
        "httpUrl": "http://broker-1:8080",
        "disabled": False,
        "advertisedListeners": {"internal": {"brokerServiceUrl": "pulsar://10.0.0.1:6650"}},
    }


def test_owner_records_are_equal_whatever_the_broker_id() -> None:
    old = NamespaceEphemeralData.decode(
        "/x",
        b'{"nativeUrl":"pulsar://h:6650","httpUrl":"http://h:8080","disabled":false}',
    )
    new = NamespaceEphemeralData(replace(old.urls, broker_id="other:1"))
    assert old.urls.broker_id == "h:8080"
    assert old == new
    assert hash(old) == hash(new)
    assert old != replace(old, is_disabled=True)
    assert old != replace(old, urls=replace(old.urls, native_url=None))


def test_owner_without_any_name_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="brokerId"):
        NamespaceEphemeralData.decode("/x", b"{}")


def test_old_leader_payload_yields_its_broker_id() -> None:
    leader = LeaderBroker.decode("/x", b'{"serviceUrl":"http://broker-1:8080"}')
    assert leader.broker_id == "broker-1:8080"


def test_load_report_has_pulsars_fields_sums_and_doubles() -> None:
    payload = json.loads(REPORT.encode())
    assert payload["loadReportType"] == "LocalBrokerData"
    assert payload["loadManagerClassName"].endswith("ModularLoadManagerImpl")
    assert payload["bundles"] == [BUNDLE]
    assert payload["lastBundleGains"] == [BUNDLE]
    assert payload["lastBundleLosses"] == []
    assert payload["numTopics"] == 3
    assert payload["numBundles"] == 1
    assert payload["numProducers"] == 4
    assert payload["numConsumers"] == 5
    assert payload["msgRateIn"] == 100.5
    assert payload["maxResourceUsage"] == pytest.approx(0.15375)
    assert "webServiceUrlTls" not in payload
    assert isinstance(payload["cpu"]["usage"], float)
    assert isinstance(payload["lastStats"][BUNDLE]["msgThroughputIn"], float)
    assert set(payload["lastStats"][BUNDLE]) == {
        *("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"),
        *("consumerCount", "producerCount", "topics", "cacheSize"),
    }


def test_load_report_of_an_old_broker_takes_its_id_from_the_node() -> None:
    report = LocalBrokerData.decode("/loadbalance/brokers/b:1", b'{"cpu":{"usage":1,"limit":2}}')
    assert report.urls.broker_id == "b:1"
    assert report.load.broker_id == "b:1"
    assert report.load.usage.cpu.percent == 50.0


def test_load_report_of_another_kind_of_load_manager_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="loadReportType"):
        LocalBrokerData.decode("/x", b'{"loadReportType":"LoadReport"}')


def test_averages_of_a_bundle_have_pulsars_shape() -> None:
    payload = json.loads(BundleData(BundleLoad.unseen()).encode())
    assert payload["shortTermData"] == {
        "maxSamples": 10,
        "numSamples": 0,
        "msgThroughputIn": 50000.0,
        "msgThroughputOut": 50000.0,
        "msgRateIn": 50.0,
        "msgRateOut": 50.0,
    }
    assert set(payload) == {"shortTermData", "longTermData", "topics"}


def test_more_samples_than_the_maximum_are_cut() -> None:
    data = b'{"shortTermData":{"maxSamples":10,"numSamples":11},"longTermData":{}}'
    assert BundleData.decode("/x", data).load.short.samples == 10


def test_averages_of_a_broker_are_sums_under_pulsars_names() -> None:
    load = BundleLoad.unseen().fold(BundleStats(1.0, 2.0, 3.0, 4.0))
    assert json.loads(TimeAverageBrokerData.of([load, load]).encode()) == {
        "shortTermMsgThroughputIn": 6.0,
        "shortTermMsgThroughputOut": 8.0,
        "shortTermMsgRateIn": 2.0,
        "shortTermMsgRateOut": 4.0,
        "longTermMsgThroughputIn": 6.0,
        "longTermMsgThroughputOut": 8.0,
        "longTermMsgRateIn": 2.0,
        "longTermMsgRateOut": 4.0,
    }


def test_a_boolean_is_not_taken_for_a_number() -> None:
    with pytest.raises(CorruptRecord, match="count: cannot be a bool"):
        LeaseRecord.decode("/x", b'{"version":1,"nonce":"n","count":true}')


def test_a_move_in_a_trace_has_a_field_that_earlier_releases_ignore() -> None:
    traced = replace(MOVE, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert MoveNode.decode("/m", traced.encode()) == traced
    fields = json.loads(traced.encode())
    assert fields.pop("traceparent") == traced.traceparent
    assert fields == json.loads(MOVE.encode())
