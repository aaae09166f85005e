"""Every Python example in the pages runs, against a real etcd."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conftest import ROOT, Server, run

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [ROOT / "README.md", ROOT / "docs" / "python.md", ROOT / "bindings-python" / "README.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, code in enumerate(EXAMPLE.findall(page.read_text()), 1)
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, server: Server) -> None:
    assert "127.0.0.1:2379" in code or "memory://" in code
    done = run("import warnings; warnings.simplefilter('error')\n" + code.replace("http://127.0.0.1:2379", server.url))
    assert (done.returncode, done.stderr) == (0, ""), done
    assert server.keys("/lock/") == []


def test_every_page_has_examples() -> None:
    assert all(EXAMPLE.search(page.read_text()) for page in PAGES), "a page without an example is not checked"


def test_the_guide_names_every_recipe_and_exception() -> None:
    guide: Path = ROOT / "docs" / "python.md"
    text = guide.read_text()
    for path in (ROOT / "bindings-python" / "examples").glob("*.py"):
        assert f"`{path.name}`" in text
