"""The code that docs/from-flower.md shows is the code of the examples."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)


def test_every_block_is_part_of_its_file() -> None:
    page = (ROOT / "docs" / "from-flower.md").read_text()
    blocks = BLOCK.findall(page)
    assert len(blocks) == page.count("```python")
    for file, code in blocks:
        assert code in (ROOT / file).read_text(), f"docs/from-flower.md shows other code than {file}:\n{code}"
