"""The syntax of mapping rules, and the bound on their patterns."""

import re

import pytest

from broker_ctl.errors import InvalidName
from broker_ctl.security.certificates.certificate_roles import MappingRules

WORDS = [
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/L,DEFAULT",
    r"RULE:.*[,=]CN=([^,\/]+)/u-$1/U",
    r"RULE:spiffe:\/\/prod\/(.*)/a\/$1\$/",
]


@pytest.mark.parametrize("text", WORDS)
def test_rules_are_written_as_they_are_read(text: str) -> None:
    rules = MappingRules.parse(text)
    assert MappingRules.parse(str(rules)) == rules


def test_blanks_around_rules_mean_nothing() -> None:
    assert MappingRules.parse(" DEFAULT , RULE:a/b/ ") == MappingRules.parse("DEFAULT,RULE:a/b/")


def test_an_escaped_slash_is_a_slash() -> None:
    assert MappingRules.parse(r"RULE:a\/(.)/$1\/\$1/").role_of("a/b") == "b/$1"


@pytest.mark.parametrize(
    "text",
    ["", " ", "DEFAULT,", "default", "RULE:a/b", "RULE:a/b/x", "RULE://b/", "RULE:a/b/L U", "a/b/"],
)
def test_what_is_not_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither DEFAULT nor RULE|without a pattern"):
        MappingRules.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RULE:(a/b/", "regular expression"),
        ("RULE:a/$1/", "has 0 groups"),
        ("RULE:(a+)+b/x/", "may take too long"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1/", "may take too long"),
        ("RULE:" + "a?" * 40 + "a" * 40 + "/x/", "may take too long"),
    ],
)
def test_a_pattern_that_is_wrong_or_unbounded_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidName, match=re.escape(why)):
        MappingRules.parse(text)


def test_the_number_of_rules_is_bounded() -> None:
    with pytest.raises(ValueError, match="more than 64"):
        MappingRules.parse(",".join(["RULE:a/b/"] * 65))
