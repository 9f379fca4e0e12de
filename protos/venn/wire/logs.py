"""Logging for people on stderr, one line per record: time, level, component, message, fields."""

import datetime
import json
import logging
import sys
from typing import Any

from venn.wire.text import printable

FIELDS = "fields"


def configure(*, component: str, verbose: int = 0, quiet: bool = False, json: bool = False) -> None:
    """Set up the root logger: warnings when quiet, INFO by default, DEBUG from ``-v``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(component) if json else LineFormatter(component))
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if verbose < 2:
        for noisy in ("asyncio", "grpc", "matplotlib"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def log(logger: logging.Logger, level: int, message: str, /, **fields: object) -> None:
    """Log a message with named fields: ``log(logger, logging.INFO, "lost", device=d, lease=n)``."""
    logger.log(level, message, extra={FIELDS: fields})


class LineFormatter(logging.Formatter):
    """Formats a record as ``2026-02-03T04:05:06.789 INFO component message key=value``."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self.component = component

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
        message = printable(record.getMessage(), 2000)
        return f"{_time(record)} {record.levelname} {self.component} {message}{fields}{_trace(self, record)}"


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def __init__(self, component: str) -> None:
        super().__init__()
        self.component = component

    def format(self, record: logging.LogRecord) -> str:
        whole: dict[str, Any] = {
            **_fields(record),
            "at": _time(record),
            "level": record.levelname,
            "component": self.component,
            "message": record.getMessage(),
        }
        if trace := _trace(self, record):
            whole["traceback"] = trace.strip()
        return json.dumps(whole, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return dict(getattr(record, FIELDS, {}))


def _time(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created).astimezone()
    return at.isoformat(timespec="milliseconds")


def _value(value: object) -> str:
    text = printable(str(value), 500)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return "\n" + formatter.formatException(record.exc_info) if record.exc_info else ""
