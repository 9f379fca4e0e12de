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
    handler.setFormatter(Formatter(component, json=json))
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if verbose < 2:
        for noisy in ("asyncio", "grpc", "matplotlib"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def log(logger: logging.Logger, level: int, message: str, /, **fields: object) -> None:
    """Log a message with named fields: ``log(logger, logging.INFO, "lost", device=d, lease=n)``."""
    logger.log(level, message, extra={FIELDS: fields})


class Formatter(logging.Formatter):
    """Formats a record as ``2026-02-03T04:05:06.789 INFO component message key=value``, or as a JSON object."""

    def __init__(self, component: str, *, json: bool = False) -> None:
        super().__init__()
        self.component, self.json = component, json

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        fields: dict[str, Any] = dict(getattr(record, FIELDS, {}))
        message, trace = record.getMessage(), self.formatException(record.exc_info) if record.exc_info else ""
        if not self.json:
            said = "".join(f" {name}={_value(value)}" for name, value in fields.items())
            line = f"{at} {record.levelname} {self.component} {printable(message, 2000)}{said}"
            return f"{line}\n{trace}" if trace else line
        whole = fields | {"at": at, "level": record.levelname, "component": self.component, "message": message}
        return json.dumps(whole | {"traceback": trace} if trace else whole, default=str)


def _value(value: object) -> str:
    text = printable(str(value), 500)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
