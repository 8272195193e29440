"""``/admin/v2/brokers/configuration``: settings that change at run time (reference: 8.4, 9)."""

from typing import Final

from aiohttp import web

from broker_ctl.managers.configuration import DYNAMIC_KEYS, DynamicConfiguration
from broker_ctl.surface import answers

_CONFIGURATION: Final = "/admin/v2/brokers/configuration"


class ConfigurationRoutes:
    """Names, overrides and effective values; an override holds for all brokers."""

    def __init__(self, configuration: DynamicConfiguration) -> None:
        self._configuration = configuration

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get(_CONFIGURATION, self.names),
            web.get(f"{_CONFIGURATION}/values", self.overrides),
            web.get(f"{_CONFIGURATION}/runtime", self.effective),
            web.post(f"{_CONFIGURATION}/{{name}}/{{value}}", self.set),
            web.delete(f"{_CONFIGURATION}/{{name}}", self.delete),
        ]

    async def names(self, _: web.Request) -> web.Response:
        """The settings that may be overridden."""
        return answers.json(sorted(DYNAMIC_KEYS))

    async def overrides(self, _: web.Request) -> web.Response:
        """What is overridden, usable or not."""
        return answers.json(await self._configuration.overrides())

    async def effective(self, _: web.Request) -> web.Response:
        """What holds on this broker; anybody may ask, so nothing that leads to a secret."""
        return answers.json(self._configuration.effective())

    async def set(self, request: web.Request) -> web.Response:
        """204; 412 for a setting that is unknown or not dynamic, and for what is no value of it."""
        await self._configuration.set(request.match_info["name"], request.match_info["value"])
        return answers.no_content()

    async def delete(self, request: web.Request) -> web.Response:
        """204, also where nothing was overridden; 412 for what is no dynamic setting."""
        await self._configuration.delete(request.match_info["name"])
        return answers.no_content()
