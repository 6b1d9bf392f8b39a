"""The cells of the page on notebooks run, one after the other, in one event loop."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "jupyter.md"


def test_the_cells_run_and_print_what_they_say(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = re.findall(r"^```python cell\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(cells) == 3
    names = {}

    async def run():
        for cell in cells:
            code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            done = eval(code, names)
            if inspect.isawaitable(done):
                await done

    asyncio.run(run())
    promised = re.findall(r"^# > (.*)$", "".join(cells), re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == promised
    assert list(tmp_path.iterdir()) == []
