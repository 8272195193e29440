"""What this broker says of where it is reached, by its settings."""

from itertools import permutations

import pytest

from broker_ctl.core.model.broker import AdvertisedListener
from broker_ctl.daemon.wiring.foundation import broker_urls
from broker_ctl.settings.sources import load

ENTRIES = (
    "ext:pulsar://e:6650",
    "ext:pulsar+ssl://e:6651",
    "ext:http://e:8080",
    "ext:https://e:8443",
)


@pytest.mark.parametrize("entries", list(permutations(ENTRIES)), ids=",".join)
def test_each_scheme_of_a_listener_has_its_own_address_in_any_order(
    entries: tuple[str, ...],
) -> None:
    urls = broker_urls(load(None, {}, [f"advertisedListeners={','.join(entries)}"]))
    assert urls.listeners == (
        AdvertisedListener(
            "ext", "pulsar://e:6650", "pulsar+ssl://e:6651", "http://e:8080", "https://e:8443"
        ),
    )
    # And of clients that name no listener.
    assert (urls.native_url, urls.native_url_tls) == ("pulsar://e:6650", "pulsar+ssl://e:6651")
    assert (urls.web_url, urls.web_url_tls) == ("http://127.0.0.1:8080", None)


@pytest.mark.parametrize("entry", ENTRIES)
def test_one_scheme_alone_leaves_the_other_addresses_out(entry: str) -> None:
    (listener,) = broker_urls(load(None, {}, [f"advertisedListeners={entry}"])).listeners
    found = (
        listener.native_url,
        listener.native_url_tls,
        listener.web_url,
        listener.web_url_tls,
    )
    place = ENTRIES.index(entry)
    assert found == tuple(
        entry.removeprefix("ext:") if at == place else None for at in range(len(ENTRIES))
    )
