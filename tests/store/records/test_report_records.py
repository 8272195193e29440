"""The Simple manager's report is compared with one of Pulsar's own class.

Docs: pulsar-load-data.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.errors import CorruptRecord
from broker_ctl.store.records.load import BundleData, LocalBrokerData, encode_lines, line_bytes
from broker_ctl.store.records.simple import (
    LoadReport,
    decode_dynamic_setting,
    decode_quota,
    decode_report,
    encode_quota,
)

BUNDLE = "public/default/0x00000000_0x40000000"
PULSARS = """
{"name":"broker-1:8080","webServiceUrl":"http://broker-1:8080",
 "pulsarServiceUrl":"pulsar://broker-1:6650","persistentTopicsEnabled":true,
 "nonPersistentTopicsEnabled":true,"timestamp":0,"msgRateIn":100.5,"msgRateOut":0.0,"numTopics":3,
 "numConsumers":0,"numProducers":0,"numBundles":1,"protocols":{},"startTimestamp":0,
 "systemResourceUsage":{"bandwidthIn":{"usage":1000.0,"limit":1.0E7},
   "bandwidthOut":{"usage":2000.0,"limit":1.0E7},"cpu":{"usage":123.4,"limit":800.0},
   "memory":{"usage":1024.0,"limit":2048.0},"directMemory":{"usage":10.0,"limit":4096.0}},
 "bundleStats":{"public/default/0x00000000_0x40000000":{"msgRateIn":100.5,"msgThroughputIn":0.0,
   "msgRateOut":0.0,"msgThroughputOut":0.0,"consumerCount":0,"producerCount":0,"topics":3,
   "cacheSize":0}},
 "bundleGains":[],"bundleLosses":[],"allocatedCPU":0.0,"allocatedMemory":0.0,
 "allocatedBandwidthIn":0.0,"allocatedBandwidthOut":0.0,"allocatedMsgRateIn":0.0,
 "allocatedMsgRateOut":0.0,"preAllocatedCPU":0.0,"preAllocatedMemory":0.0,
 "preAllocatedBandwidthIn":0.0,"preAllocatedBandwidthOut":0.0,"preAllocatedMsgRateIn":0.0,
 "preAllocatedMsgRateOut":0.0,"loadReportType":"LoadReport","cpu":{"usage":123.4,"limit":800.0},
 "memory":{"usage":1024.0,"limit":2048.0},"directMemory":{"usage":10.0,"limit":4096.0},
 "bandwidthIn":{"usage":1000.0,"limit":1.0E7},"bandwidthOut":{"usage":2000.0,"limit":1.0E7},
 "lastUpdate":0,"msgThroughputIn":100.5,"msgThroughputOut":0.0,"underLoaded":false,
 "overLoaded":false}
"""
USAGE = SystemUsage(
    cpu=ResourceUsage(123.4, 800.0),
    memory=ResourceUsage(1024.0, 2048.0),
    direct_memory=ResourceUsage(10.0, 4096.0),
    bandwidth_in=ResourceUsage(1000.0, 1e7),
    bandwidth_out=ResourceUsage(2000.0, 1e7),
)
LOAD = BrokerLoad("broker-1:8080", USAGE, {BUNDLE: BundleStats(msg_rate_in=100.5, topics=3)})
URLS = BrokerUrls("broker-1:8080", "http://broker-1:8080", native_url="pulsar://broker-1:6650")
REPORT = LoadReport(URLS, LOAD)
PATH = "/loadbalance/brokers/broker-1:8080"
name = st.from_regex(r"[-=:.\w/]{1,60}", fullmatch=True).filter(str.isascii)
count = st.integers(0, 2**63 - 1)
rate = st.floats(0, 1.7e308)


def test_a_load_report_is_written_as_pulsar_writes_it_except_for_pulsars_bug() -> None:
    written, pulsars = json.loads(REPORT.encode()), json.loads(PULSARS)
    # Pulsar's getters of the throughput answer with the message rate.
    assert (written.pop("msgThroughputIn"), pulsars.pop("msgThroughputIn")) == (0.0, 100.5)
    assert written == pulsars
    # Java distinguishes doubles from integers.
    kinds = {name: type(value) for name, value in pulsars.items()}
    assert {name: type(value) for name, value in written.items()} == kinds


def test_a_load_report_of_pulsar_is_read() -> None:
    data = json.dumps({**json.loads(PULSARS), "ofTomorrow": [1], "webServiceUrlTls": None})
    report = decode_report(PATH, data.encode())
    assert report == REPORT
    assert report.load_manager.endswith(".SimpleLoadManagerImpl")


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ('{"loadReportType":"LoadReport"}', LoadReport),
        ('{"underLoaded":false}', LoadReport),
        ('{"loadReportType":"LocalBrokerData"}', LocalBrokerData),
        ("{}", LocalBrokerData),
    ],
)
def test_the_kind_of_a_report_is_determined_as_in_pulsar(payload: str, kind: type) -> None:
    report = decode_report(PATH, payload.encode())
    assert type(report) is kind
    assert report.load.broker_id == "broker-1:8080"


@pytest.mark.parametrize("payload", ['{"loadReportType":"Other"}', "[]", '{"underLoaded":"no"}'])
def test_a_payload_that_is_not_a_report_is_corrupt(payload: str) -> None:
    with pytest.raises(CorruptRecord, match="broker-1:8080"):
        decode_report(PATH, payload.encode())


@pytest.mark.parametrize(
    "fields",
    [
        {"cpu": {"usage": 1e300, "limit": 800.0}},
        {"cpu": {"usage": -1e300, "limit": 800.0}},
        {"lastStats": {BUNDLE: {"msgRateIn": 1e308}}},
        {"lastStats": {BUNDLE: {"topics": 2**63 - 1}}},
        {"lastStats": {BUNDLE: {"cacheSize": -(2**63)}}},
        {"numBundles": 2**64 - 1},
        {"lastUpdate": 2**64 - 1},
    ],
)
def test_a_report_of_more_than_any_broker_has_is_corrupt(fields: dict[str, object]) -> None:
    with pytest.raises(CorruptRecord, match="too large"):
        decode_report(PATH, json.dumps(fields).encode())


def test_a_number_whose_inverse_would_be_infinite_is_zero() -> None:
    limits = {"cpu": {"usage": 80.0, "limit": 5e-324}, "memory": {"usage": -1e-320, "limit": 1e-9}}
    usage = decode_report(PATH, json.dumps(limits).encode()).load.usage
    assert (usage.cpu.limit, usage.memory.usage, usage.memory.limit) == (0.0, 0.0, 1e-9)


@pytest.mark.parametrize("kind", [LocalBrokerData, LoadReport])
def test_bundles_without_room_count_in_the_totals_and_are_read_back(
    kind: type[LocalBrokerData] | type[LoadReport],
) -> None:
    unlisted = BundleStats(1.0, 2.0, 3.0, 4.0, 5, 6, 7)
    load = replace(LOAD, unlisted=unlisted, unlisted_bundles=4)
    payload = kind(URLS, load).encode()
    fields = json.loads(payload)
    assert (fields["numBundles"], fields["numTopics"], fields["msgRateIn"]) == (5, 8, 101.5)
    assert fields.get("bundles", [BUNDLE]) == [BUNDLE]
    assert decode_report(PATH, payload).load == load


@pytest.mark.parametrize("kind", [LocalBrokerData, LoadReport])
def test_a_report_of_many_bundles_is_read_as_it_was_written(
    kind: type[LocalBrokerData] | type[LoadReport],
) -> None:
    lines = {f"t/n/{n}": BundleStats(float(n), topics=n) for n in range(1050)}
    report = kind(URLS, replace(LOAD, bundles=lines))
    assert decode_report(PATH, report.encode()) == report


@given(name, st.tuples(rate, rate, rate, rate, count, count, count, count))
def test_no_line_is_longer_than_its_estimate(
    bundle: str, values: tuple[float, float, float, float, int, int, int, int]
) -> None:
    stats = BundleStats(*values)
    line = encode_lines({bundle: stats})
    assert len(line) + len(bundle) + len('"",') <= line_bytes(bundle)


def test_a_part_of_a_sample_is_written_as_a_whole_one() -> None:
    load = BundleLoad.unseen().fold(BundleStats(1.0)).fold(BundleStats(1.0), 0.25)
    payload = json.loads(BundleData(load).encode())
    assert payload["shortTermData"]["numSamples"] == payload["longTermData"]["numSamples"] == 2
    assert isinstance(payload["longTermData"]["numSamples"], int)


def test_the_default_quota_is_pulsars() -> None:
    written = json.loads(encode_quota(ResourceQuota()))
    assert written == {
        "msgRateIn": 40.0, "msgRateOut": 120.0, "bandwidthIn": 100000.0, "bandwidthOut": 300000.0,
        "memory": 80.0, "dynamic": True,
    }  # fmt: skip
    assert [type(value) for value in written.values()] == [float] * 5 + [bool]


def test_a_quota_is_read_back_and_unknown_fields_are_ignored() -> None:
    quota = ResourceQuota(1.0, 2.0, 3.0, 4.0, 5.0, is_dynamic=False)
    assert decode_quota("/x", encode_quota(quota)) == quota
    assert decode_quota("/x", b'{"msgRateIn":1,"new":{}}') == ResourceQuota(1.0, 0, 0, 0, 0)
    with pytest.raises(CorruptRecord, match="/x: memory"):
        decode_quota("/x", b'{"memory":"much"}')


def test_a_dynamic_setting_is_a_map_of_texts() -> None:
    data = b'{"overloadThreshold":"90"}'
    assert decode_dynamic_setting("/x", data) == {"overloadThreshold": "90"}
    with pytest.raises(CorruptRecord, match="/x: overloadThreshold"):
        decode_dynamic_setting("/x", b'{"overloadThreshold":90}')
