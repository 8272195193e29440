"""Overrides of /admin/configuration."""

from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load, with_dynamic

TOPICS = "topic_count_equally_divide"
DEFAULT, SUPPORTED = (
    "defaultNamespaceBundleSplitAlgorithm",
    "supportedNamespaceBundleSplitAlgorithms",
)


def test_a_dynamic_key_overrides_all_sources_and_is_the_origin() -> None:
    start = load(None, {}, ["loadBalancerSheddingIntervalMinutes=2"])
    settings, problems = with_dynamic(start, {"loadBalancerSheddingIntervalMinutes": "0.5"})
    assert problems == ()
    assert settings.shedding.interval_s == 30
    assert settings.origin("loadBalancerSheddingIntervalMinutes") == "dynamic"
    assert start.shedding.interval_s == 120


def test_an_override_that_was_deleted_has_no_effect_any_more() -> None:
    start = Settings()
    with_dynamic(start, {"dryRun": "true"})
    settings, _ = with_dynamic(start, {})
    assert settings == start


def test_bad_overrides_are_reported_and_the_others_hold() -> None:
    settings, problems = with_dynamic(
        Settings(),
        {
            "dryRun": "true",
            "webServicePort": "9090",
            "loadBalancerBrokerMaxTopics": "many",
            "tlsEnabled": "true",
            "frobnicate": "1",
            "dryrun": "true",
        },
    )
    assert settings.balancing.dry_run
    assert settings.broker.web_service_port == 8080
    assert sorted(map(str, problems)) == [
        "dynamic: dryrun: unknown key; dryRun is meant",
        "dynamic: frobnicate: not a setting of broker-ctl",
        "dynamic: loadBalancerBrokerMaxTopics=many: allowed: an integer of at least 1",
        "dynamic: tlsEnabled: not a setting of broker-ctl",
        "dynamic: webServicePort: not dynamic, only read at start",
    ]


def test_pulsars_misspelt_weight_is_dynamic_too() -> None:
    settings, problems = with_dynamic(Settings(), {"loadBalancerBandwithInResourceWeight": "0.25"})
    assert problems == ()
    assert settings.load_report.bandwidth_in_weight == 0.25


def test_an_override_that_contradicts_the_rest_is_left_out() -> None:
    settings, problems = with_dynamic(Settings(), {SUPPORTED: TOPICS, "dryRun": "true"})
    assert settings.splitting == Settings().splitting
    assert settings.balancing.dry_run
    assert [problem.key for problem in problems] == [DEFAULT]


def test_overrides_are_judged_together() -> None:
    settings, problems = with_dynamic(Settings(), {SUPPORTED: TOPICS, DEFAULT: TOPICS})
    assert problems == ()
    assert settings.splitting.default_algorithm == TOPICS
    assert settings.splitting.supported_algorithms == (TOPICS,)
