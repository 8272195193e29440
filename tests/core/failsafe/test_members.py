"""The list of members: entries, and who has read them."""

from broker_ctl.core.failsafe.members import ListVersion, MemberList

LIST = MemberList(ListVersion(7, 3), {"a": 0, "b": 1, "c": 3})


def test_an_entry_is_the_version_in_which_a_member_came_on_the_list() -> None:
    assert LIST.entry_of("c") == ListVersion(7, 3)
    assert LIST.entry_of("d") is None
    assert LIST.with_member("d") == {"a": 0, "b": 1, "c": 3, "d": 4}


def test_a_member_that_comes_back_is_a_new_one() -> None:
    left = MemberList(ListVersion(7, 4), LIST.without({"b"}))
    assert left.added == {"a": 0, "c": 3}
    assert left.with_member("b")["b"] == 5


def test_the_others_are_all_but_one() -> None:
    assert LIST.others("b") == ["a", "c"]


def test_who_has_read_an_older_list_or_none_does_not_know_of_an_entry() -> None:
    reads = {"a": ListVersion(7, 3), "b": ListVersion(7, 2)}
    entry = ListVersion(7, 3)
    assert LIST.unread_by(entry, reads) == ["b", "c"]
    assert LIST.unread_by(ListVersion(7, 2), reads) == ["c"]


def test_what_was_read_of_another_node_says_nothing() -> None:
    other = dict.fromkeys("abc", ListVersion(6, 9))
    assert LIST.unread_by(ListVersion(7, 1), other) == ["a", "b", "c"]
