"""The user of embedded servers: made once, for the owner of the directory only."""

from pathlib import Path

import pytest

from broker_ctl.errors import EmbeddedError
from broker_ctl.lab.embedded.server import USER_FILE, sasl_user


def test_the_first_start_draws_a_password_that_later_ones_keep(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    first = sasl_user(home)
    file = home / USER_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    user, _, password = file.read_text().strip().partition(":")
    assert (user, len(password) >= 32) == ("broker", True)
    assert f'user_broker="{password}";' in first.files["jaas.conf"]
    assert password not in repr(first) + " ".join((*first.lines, *first.java_options))
    assert sasl_user(home) == first
    assert sasl_user(tmp_path / "other").files != first.files
    assert [one.name for one in home.iterdir()] == [USER_FILE]


@pytest.mark.parametrize(
    "text", ["", "broker", "broker:", ":x", 'broker:a"; user_evil="b', "broker:a\nevil:b", "a b:c"]
)
def test_other_contents_are_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    (tmp_path / USER_FILE).write_text(text)
    (tmp_path / USER_FILE).chmod(0o600)
    with pytest.raises(EmbeddedError, match="user:password is expected") as refused:
        sasl_user(tmp_path)
    assert "evil" not in str(refused.value)


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    sasl_user(tmp_path)
    (tmp_path / USER_FILE).chmod(0o620)
    with pytest.raises(EmbeddedError, match="chmod go-w"):
        sasl_user(tmp_path)
