"""``/admin/v2/brokers/configuration``: settings that change at run time.

Docs: pulsar-admin-api, pulsar-configuration.
"""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.request_params import is_dry_run, report_dry_run, supports_dry_run
from broker_ctl.broker.policies.dynamic_config import DYNAMIC_KEYS, DynamicConfiguration

_CONFIGURATION: Final = "/admin/v2/brokers/configuration"


class ConfigurationRoutes:
    """Names, overrides and effective values; an override holds for all brokers."""

    def __init__(self, configuration: DynamicConfiguration) -> None:
        self._configuration = configuration

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_CONFIGURATION, self.names),
            web.get(f"{_CONFIGURATION}/values", self.overrides),
            web.get(f"{_CONFIGURATION}/runtime", self.effective),
            web.post(f"{_CONFIGURATION}/{{name}}/{{value}}", self.set),
            web.delete(f"{_CONFIGURATION}/{{name}}", self.delete),
        ]

    async def names(self, _: web.Request) -> web.Response:
        """The settings that may be overridden."""
        return responses.json(sorted(DYNAMIC_KEYS))

    async def overrides(self, _: web.Request) -> web.Response:
        """All overrides, including invalid ones."""
        return responses.json(await self._configuration.overrides())

    async def effective(self, _: web.Request) -> web.Response:
        """The values in force on this broker, without secrets: every role may read them."""
        return responses.json(self._configuration.effective())

    @supports_dry_run
    async def set(self, request: web.Request) -> web.Response:
        """204; 412 for a setting that is unknown or not dynamic, and for an invalid value."""
        key, text = request.match_info["name"], request.match_info["value"]
        is_dry = is_dry_run(request)
        await self._note_change(request, key, text)
        await self._configuration.set(key, text, is_dry_run=is_dry)
        return report_dry_run(key=key, value=text) if is_dry else responses.no_content()

    @supports_dry_run
    async def delete(self, request: web.Request) -> web.Response:
        """204, even if there was no override; 412 for a setting that is not dynamic."""
        key, is_dry = request.match_info["name"], is_dry_run(request)
        await self._note_change(request, key, None)
        was_overridden = await self._configuration.delete(key, is_dry_run=is_dry)
        return report_dry_run(was_overridden=was_overridden) if is_dry else responses.no_content()

    async def _note_change(self, request: web.Request, key: str, text: str | None) -> None:
        """Keep the override before and after for the audit log; one of another broker may race."""
        before = (await self._configuration.overrides()).get(key)
        note_change(request, before={key: before}, after={key: text})
