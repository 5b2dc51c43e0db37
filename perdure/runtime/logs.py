# SPDX-License-Identifier: Apache-2.0
"""How log records look. Everybody logs by the standard library's loggers; structlog only renders what reaches the root.

Temporal's ``workflow.logger`` and ``activity.logger`` are such loggers, and are silent during a replay. Tracebacks never show the
values of variables, as structlog's own do: a secret may be among them.
"""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal

import structlog
from structlog.typing import EventDict, Processor

from perdure.runtime.settings import Settings


def _without_handles(_: object, __: str, event: EventDict) -> EventDict:
    """Leave out what the SDK attaches for programs."""
    event.pop("temporal_log", None)
    return event


_SHARED: Final[tuple[Processor, ...]] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _without_handles,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
_QUIET: Final = ("temporalio", "httpx", "httpcore", "urllib3", "podman")
"""Libraries that tell at level info what nobody asked."""


def configure(settings: Settings) -> None:
    """Send every record to stderr, as text for people or as JSON for machines. Call once, first."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(_format(settings.log_format)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def formatter(kind: Literal["console", "json"]) -> logging.Formatter:
    """The formatter that ``configure`` gives to the root."""
    final: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if kind == "json":
        traces = structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
        final += [traces, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        plain = structlog.dev.plain_traceback
        final += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=final)


def _format(wanted: str) -> Literal["console", "json"]:
    if wanted == "auto":
        return "console" if sys.stderr.isatty() else "json"
    return "json" if wanted == "json" else "console"
