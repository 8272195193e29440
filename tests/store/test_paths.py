import pytest

from broker_ctl.core.model.names import Bundle, Namespace, Topic
from broker_ctl.errors import InvalidName, InvalidPath
from broker_ctl.store import path_rules, paths

NAMESPACE = Namespace.parse("public/default")
BUNDLE = Bundle.parse("public/default/0x40000000_0x80000000")


def test_paths_of_pulsar_are_its_own_byte_for_byte() -> None:
    assert paths.ownership(BUNDLE) == "/namespace/public/default/0x40000000_0x80000000"
    assert paths.ownership_of(NAMESPACE) == "/namespace/public/default"
    assert paths.policies(NAMESPACE) == "/admin/policies/public/default"
    assert paths.tenant("public") == "/admin/policies/public"
    assert paths.local_policies(NAMESPACE) == "/admin/local-policies/public/default"
    assert paths.load_report("broker-1:8080") == "/loadbalance/brokers/broker-1:8080"
    assert paths.bundle_data(BUNDLE) == f"/loadbalance/bundle-data/{BUNDLE}"
    assert paths.broker_time_average("b:1") == "/loadbalance/broker-time-average/b:1"
    assert paths.resource_quota(BUNDLE) == f"/loadbalance/resource-quota/{BUNDLE}"
    assert paths.cluster("east") == "/admin/clusters/east"
    assert paths.isolation_policies("east") == "/admin/clusters/east/namespaceIsolationPolicies"
    assert paths.failure_domain("east", "rack-1") == "/admin/clusters/east/failureDomain/rack-1"


def test_a_local_topic_name_is_encoded_as_java_does() -> None:
    topic = Topic.of("persistent", NAMESPACE, "a b*~é%2Fc")
    assert paths.partitioned_topic(topic) == (
        "/admin/partitioned-topics/public/default/persistent/a+b*%7E%C3%A9%252Fc"
    )


def test_our_own_paths_lie_under_broker_ctl() -> None:
    assert paths.registration("b:1") == "/broker-ctl/brokers/b:1"
    assert paths.lease("b:1") == "/broker-ctl/leases/b:1"
    assert paths.move("m-1") == "/broker-ctl/moves/m-1"
    assert paths.drain("b:1") == "/broker-ctl/drain/b:1"
    assert paths.plan_progress("0a1b") == "/broker-ctl/plans/0a1b/progress"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/a", "a\x00", "a\x1f", "\ud800", "\U0001f600"]
)
def test_a_name_from_outside_cannot_leave_its_place(name: str) -> None:
    for build in (paths.load_report, paths.lease, paths.move, paths.drain, paths.plan):
        with pytest.raises(InvalidName):
            build(name)


def test_an_ownership_path_is_read_back() -> None:
    assert paths.owned_bundle(paths.ownership(BUNDLE)) == BUNDLE


@pytest.mark.parametrize(
    "path",
    [
        "/namespace",
        "/namespace/public",
        "/namespace/public/default",
        "/namespace/public/default/x",
        "/namespace/public/default/0x40000000_0x80000000/x",
        "/namespace/public/default/0xA0000000_0xB0000000",
        "/loadbalance/brokers/b:1",
        "public/default/0x40000000_0x80000000",
    ],
)
def test_no_other_path_is_an_ownership_path(path: str) -> None:
    assert paths.owned_bundle(path) is None


def test_the_namespace_of_policies_is_read_back() -> None:
    assert paths.local_policies_namespace(paths.local_policies(NAMESPACE)) == NAMESPACE
    assert paths.policies_namespace(paths.policies(NAMESPACE)) == NAMESPACE
    assert paths.local_policies_namespace(paths.policies(NAMESPACE)) is None
    assert paths.local_policies_namespace("/admin/local-policies/public") is None


def test_the_name_of_a_direct_child_is_read_back() -> None:
    assert paths.name_below(paths.LOAD_REPORTS, paths.load_report("b:1")) == "b:1"
    assert paths.name_below(paths.LOAD_REPORTS, paths.LOAD_REPORTS) is None
    assert paths.name_below(paths.PLANS, paths.plan_progress("0a1b")) is None
    assert paths.name_below("/a", "/ab") is None


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a/...", "/a/.b", "/é", "/zookeeper"])
def test_a_good_path_is_accepted(path: str) -> None:
    path_rules.validate(path)


@pytest.mark.parametrize(
    "path", ["", "a", "//", "/a/", "/a//b", "/a/.", "/../a", "/\x7f", "/\uffff"]
)
def test_a_bad_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        path_rules.validate(path)


def test_paths_are_split_into_parent_name_and_ancestors() -> None:
    assert path_rules.parent_of("/a/b") == "/a"
    assert path_rules.parent_of("/a") == "/"
    assert path_rules.name_of("/a/b") == "b"
    assert path_rules.ancestors_of("/a/b/c") == ["/a", "/a/b"]
    assert path_rules.ancestors_of("/a") == []
    assert path_rules.is_at_or_below("/a", "/a/b")
    assert path_rules.is_at_or_below("/", "/a")
    assert not path_rules.is_at_or_below("/a", "/ab")
