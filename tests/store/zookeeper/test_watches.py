import pytest

from broker_ctl.store.interface import Change, Notification, NotificationListener
from broker_ctl.store.zookeeper.watches import WatchTable


def created(path: str) -> Notification:
    return Notification(Change.CREATED, path, 1)


@pytest.mark.parametrize(
    ("root", "path", "is_heard"),
    [
        ("/", "/", True),
        ("/", "/a/b", True),
        ("/a", "/a", True),
        ("/a", "/a/b/c", True),
        ("/a", "/ab", False),
        ("/a/b", "/a", False),
        ("/a", "/b/a", False),
    ],
)
def test_a_listener_gets_the_events_at_and_below_its_root(
    root: str, path: str, is_heard: bool
) -> None:
    table, heard = WatchTable(), list[Notification]()
    table.add(root, heard.append)
    table.notify(created(path))
    assert bool(heard) is is_heard


def test_listeners_are_called_in_the_order_in_which_they_were_added() -> None:
    table, heard = WatchTable(), list[str]()

    def listener(name: str) -> NotificationListener:
        return lambda _: heard.append(name)

    for name in ("first", "second", "third"):
        table.add("/a", listener(name))
    table.notify(created("/a"))
    assert heard == ["first", "second", "third"]


def test_a_root_is_watched_until_its_last_listener_stops() -> None:
    table = WatchTable()
    stops = [table.add("/a", print), table.add("/a", print), table.add("/b", print)]
    assert list(table.chunks()) == [["/a", "/b"]]
    stops[0]()
    assert list(table.chunks()) == [["/a", "/b"]]
    stops[1]()
    assert list(table.chunks()) == [["/b"]]
    stops[2]()
    assert list(table.chunks()) == []


def test_no_request_carries_more_than_a_server_takes_and_none_is_left_out() -> None:
    table = WatchTable()
    roots = [f"/{number:03}" + "x" * 1000 for number in range(300)]
    for root in roots:
        table.add(root, print)
    chunks = list(table.chunks())
    assert [root for chunk in chunks for root in chunk] == roots
    assert all(sum(map(len, chunk)) <= 128 * 1024 for chunk in chunks)
    assert len(chunks) == 3


def test_listeners_may_come_and_go_while_the_watches_are_being_set() -> None:
    table = WatchTable()
    stops = [table.add(f"/{number}" + "x" * 1000, print) for number in range(300)]
    chunks = table.chunks()
    first = next(chunks)
    table.add("/late", print)
    table.add("/later", print)
    stops[-1]()
    # A listener that came late sets the watch itself.
    assert len(first) + sum(map(len, chunks)) == 300
