"""The settings in force, with their defaults and overrides."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from broker_ctl.settings.root import Settings as AllSettings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting; ``origin`` is a word: default, broker.conf or override."""

    key: str
    value: str
    default: str
    origin: str
    is_dynamic: bool


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """The page; those that differ from their default come first."""

    changed: tuple[SettingRow, ...]
    others: tuple[SettingRow, ...]


def settings_page(
    values: Mapping[str, str], overrides: Mapping[str, str], dynamic: Collection[str]
) -> SettingsPage:
    """The page of a daemon's settings."""
    defaults = AllSettings()

    def row(key: str, value: str) -> SettingRow:
        default = defaults.text(key)
        origin = "default" if value == default else "broker.conf"
        return SettingRow(
            key, value, default, "override" if key in overrides else origin, key in dynamic
        )

    rows = [row(key, str(value)) for key, value in sorted(values.items())]
    return SettingsPage(
        tuple(each for each in rows if each.origin != "default"),
        tuple(each for each in rows if each.origin == "default"),
    )
