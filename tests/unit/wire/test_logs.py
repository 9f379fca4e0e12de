import json
import logging
from collections.abc import Iterator

import pytest

from venn.wire import logs


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_one_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(component="agent")
    logs.log(logging.getLogger("x"), logging.INFO, "lost\nit", device="phone 7", lease=3)
    logging.getLogger("x").debug("unseen")
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.endswith(' INFO agent lost it device="phone 7" lease=3')


def test_json_lines_carry_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(component="agent", verbose=1, json=True)
    try:
        raise ValueError("no rows")
    except ValueError:
        logging.getLogger("x").exception("failed", extra={"fields": {"lease": 3}})
    [line] = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert (record["level"], record["component"], record["message"], record["lease"]) == ("ERROR", "agent", "failed", 3)
    assert record["traceback"].endswith("ValueError: no rows")


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(component="c", quiet=True)
    logging.getLogger("x").info("unseen")
    logging.getLogger("x").warning("seen")
    assert "unseen" not in capsys.readouterr().err
    logs.configure(component="c", verbose=1)
    logging.getLogger("x").debug("more")
    assert "more" in capsys.readouterr().err
