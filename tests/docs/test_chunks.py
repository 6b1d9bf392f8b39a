"""The page of chunks says what the classes say."""

import runpy
from pathlib import Path
from typing import get_args

from greenroom import OutputChunk

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "reference" / "chunks.py"))


def test_the_page_of_chunks_is_up_to_date():
    page = SCRIPT["PAGE"].read_text()
    assert page == SCRIPT["page"](), "run: python docs/reference/chunks.py"
    assert all(f"\n## {kind.__name__}\n" in page for kind in get_args(OutputChunk))
