"""Every setting arrives: taking out the line that connects one is seen here.

A setting is in the table, or it is read while a daemon runs and has a test of its own below, or it
says itself that nothing reads it.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from broker_ctl.errors import SettingsError, StartError
from broker_ctl.settings.conditions import NEVER
from broker_ctl.settings.root import DECLARATIONS, Settings
from tests.support.daemon.built import Built, build, changed
from tests.support.daemon.refused_files import REFUSED, Refused
from tests.support.daemon.wired_settings import ATTACHED, TRACED, WIRED, Wired

Load = Callable[..., Settings]

# Read while a daemon runs; the tests stand in test_settings_at_run_time.py.
AT_RUN_TIME = frozenset(
    {
        "acceptIgnoredSecuritySettings",
        "allowCleartextCredentials",
        "allowedPlugins",
        "allowMixedCluster",
        "allowInsecureListener",
        "allowOpenMetadataStore",
        "zookeeperSessionExpiredPolicy",
        "stopMode",
        "sessionDirectory",
        "brokerShutdownTimeoutMs",
        "exposeBundlesMetricsInPrometheus",
        "logFormat",
        "logLevel",
    }
)


@pytest.fixture(scope="module")
def built_as_usual() -> dict[tuple[str, ...], Built]:
    """What is built beside some settings, for all rows that are built beside them."""
    return {}


def test_no_setting_is_missing() -> None:
    tables = [row.key for row in WIRED] + [row.key for row in REFUSED] + sorted(AT_RUN_TIME)
    unread = [k for k, one in DECLARATIONS.items() if NEVER in one.setting.used_with]
    counts = Counter(tables + unread)
    assert counts.keys() == DECLARATIONS.keys()
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("row", WIRED, ids=lambda row: row.key)
def test_a_setting_arrives_where_it_is_wired_to(
    row: Wired, load_here: Load, built_as_usual: dict[tuple[str, ...], Built]
) -> None:
    usual = load_here(*row.beside)
    other = load_here(*row.beside, f"{row.key}={row.value}")
    assert usual.value(row.key) != other.value(row.key)
    if row.beside not in built_as_usual:
        built_as_usual[row.beside] = build(usual)
    places = changed(built_as_usual[row.beside], build(other))
    assert {place: min(places[place], least) for place, least in row.places.items()} == row.places


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.key)
def test_a_file_that_is_not_there_is_refused(row: Refused, load_here: Load) -> None:
    settings = load_here(*row.beside, f"{row.key}=none")
    with pytest.raises((StartError, SettingsError), match=f"^{row.says or row.key + '=none'}: "):
        build(settings)


def test_tracing_arrives_beside_a_pulsar_cluster_too(load_here: Load) -> None:
    places = changed(build(load_here(*ATTACHED)), build(load_here(*ATTACHED, *TRACED)))
    wired = {"BalancerDependencies.tracer", "Dispatcher._tracer", "Foundation.tracer"}
    assert wired <= places.keys()
