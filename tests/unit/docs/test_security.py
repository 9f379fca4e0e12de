"""docs/security.md lists every bound with its default, as the code has them."""

from pathlib import Path

import pytest

from coordinator.service.bounds import CoordinatorBounds
from device_agent.bounds import AgentBounds
from job_driver.bounds import DriverBounds
from venn.wire.bounds import table

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text()


@pytest.mark.parametrize(
    ("name", "kind"), [("coordinator", CoordinatorBounds), ("driver", DriverBounds), ("agent", AgentBounds)]
)
def test_the_page_has_every_bound(name: str, kind: type) -> None:
    expected = "\n".join(table(kind))
    found = PAGE.partition(f"<!-- {name} -->\n")[2].partition("\n<!-- end -->")[0]
    assert found.strip() == expected, f"write between the marks:\n{expected}"
