"""The tracer of a daemon; without an endpoint nothing of OpenTelemetry is imported."""

import asyncio
from importlib.metadata import version
from typing import Final

from broker_ctl.errors import StartError
from broker_ctl.tracing.spans import Tracer

# A collector that does not answer must not hold up the end of the process.
_CLOSE_S: Final = 2.0


def build_tracer(
    endpoint: str, request_ratio: float, *, cluster: str, broker_id: str
) -> Tracer | None:
    """Build it; None: without an endpoint tracing is off.

    Raises:
        StartError: OpenTelemetry is not installed.
    """
    if not endpoint:
        return None
    try:
        from broker_ctl.tracing.open_telemetry import (  # half a second, and an extra
            OpenTelemetryTracer,
        )
    except ImportError as error:
        raise StartError(
            f"openTelemetryTracesEndpoint needs OpenTelemetry ({error.name} is missing): "
            "pip install 'broker-ctl[otel]', or leave it empty"
        ) from error
    resource = {
        "service.name": "broker-ctl",
        "service.namespace": cluster,
        "service.instance.id": broker_id,
        "service.version": version("broker-ctl"),
    }
    return OpenTelemetryTracer(endpoint, request_ratio, resource)


async def close_tracer(tracer: Tracer | None) -> None:
    """Send the spans that have ended."""
    if tracer is not None:
        await asyncio.to_thread(tracer.close, _CLOSE_S)
