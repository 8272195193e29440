"""Sessions of browsers: how many there are, of whom, and for how long."""

from aiohttp.test_utils import make_mocked_request

from broker_ctl.console.web import sessions
from broker_ctl.console.web.sessions import Sessions
from broker_ctl.lab.time import ManualClock

ANYBODY = make_mocked_request("GET", "/ui/")


def begun(opened: Sessions, role: str, number: int = 0) -> str:
    return opened.begin(ANYBODY, f"token {number} of {role}", role).partition(";")[0]


def token_of(opened: Sessions, cookie: str) -> str:
    return opened.token_of(make_mocked_request("GET", "/ui/", headers={"Cookie": cookie}))


def test_a_role_that_signs_in_without_end_ends_its_own_sessions() -> None:
    opened = Sessions("b:1", ManualClock(0.0))
    admin = begun(opened, "admin")
    of_viewer = [begun(opened, "viewer", number) for number in range(2 * sessions._MOST_SESSIONS)]
    assert token_of(opened, admin) == "token 0 of admin"
    alive = [cookie for cookie in of_viewer if token_of(opened, cookie)]
    assert alive == of_viewer[-sessions._MOST_OF_ROLE :]


def test_many_roles_end_the_sessions_of_the_one_that_has_most() -> None:
    opened = Sessions("b:1", ManualClock(0.0))
    admin = begun(opened, "admin")
    for number in range(sessions._MOST_OF_ROLE):
        for role in range(12):
            begun(opened, f"viewer {role}", number)
    assert token_of(opened, admin) == "token 0 of admin"
    assert len(opened._open) == sessions._MOST_SESSIONS


def test_a_token_of_a_session_that_has_ended_is_forgotten() -> None:
    clock = ManualClock(0.0)
    opened = Sessions("b:1", clock)
    cookie = begun(opened, "admin")
    clock.time_s = sessions._LIFE_S - 1
    assert token_of(opened, cookie)
    clock.time_s = sessions._LIFE_S
    # Any client may ask next.
    assert token_of(opened, "") == ""
    assert not opened._open
