import pytest

from broker_ctl.core.rules.leader_rules import SimpleRules, SimpleStrategy

RULES = SimpleRules()


def test_an_operator_overrides_what_the_settings_say() -> None:
    rules, complaints = RULES.under(
        {
            "overloadThreshold": "90",
            "comfortLoadThreshold": "60.5",
            "underloadThreshold": "40",
            "autoBundleSplitEnabled": "false",
            "loadBalancerStrategy": "weightedRandomSelection",
            "loadFactorCPU": "0.05",
            "loadFactorMemory": "20",
        }
    )
    assert rules == SimpleRules(
        90.0, 60.5, 40.0, SimpleStrategy.WEIGHTED_RANDOM, is_splitting=False,
        cpu_per_msg=0.05, memory_per_group_mib=20.0,
    )  # fmt: skip
    assert complaints == ()


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        ("overloadThreshold", "high", "a number is allowed"),
        ("overloadThreshold", "nan", "above 0 and up to 100"),
        ("underloadThreshold", "101", "above 0 and up to 100"),
        ("comfortLoadThreshold", "-1", "above 0 and up to 100"),
        ("autoBundleSplitEnabled", "yes", "true or false"),
        ("loadBalancerStrategy", "roundRobin", "leastLoadedServer, leastMsgPerSecond"),
    ],
)
def test_a_bad_override_is_reported_and_the_others_hold(
    key: str, text: str, complaint: str
) -> None:
    rules, complaints = RULES.under({key: text, "loadFactorCPU": "0.05"})
    assert rules == SimpleRules(cpu_per_msg=0.05)
    (message,) = complaints
    assert message.startswith(f"{key}='{text}'")
    assert complaint in message


def test_nothing_said_changes_nothing() -> None:
    assert RULES.under({"somethingElse": "1"}) == (RULES, ())
