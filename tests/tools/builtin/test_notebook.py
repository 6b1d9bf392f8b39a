import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ToolError
from greenroom.tools import Edit, Read
from greenroom.tools.builtin.notebook import render_notebook

RED = "\x1b[31mE\x1b[0m: v"
CELLS = [
    {"cell_type": "markdown", "source": ["# Title\n", "Text."], "attachments": {"a.png": {}}},
    {
        "cell_type": "code",
        "execution_count": 3,
        "source": 'print("a")\nplot()',
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["10%\r", "100%\n", "done\n"]},
            {
                "output_type": "display_data",
                "data": {"image/png": "iVBORw0KGgo" * 2_000, "text/plain": ["<Figure>"]},
            },
            {"output_type": "execute_result", "data": {"text/html": "<b>x</b>"}},
            {
                "output_type": "error",
                "ename": "E",
                "evalue": "v",
                "traceback": ["\x1b[31mE\x1b[0m: v"],
            },
        ],
    },
    {
        "cell_type": "code",
        "source": [],
        "outputs": [{"text": "x" * 9_000}],
    },
]
SHOWN = """\
--- cell 1 of 3: markdown ---
# Title
Text.
[attached: a.png]
--- cell 2 of 3: code, run as [3] ---
print("a")
plot()
--- output ---
100%
done
--- output ---
[image/png, 22,000 characters, not shown]
<Figure>
--- output ---
[text/html, 8 characters, not shown]
--- output ---
E: v
--- cell 3 of 3: code ---
--- output ---
"""


@pytest.fixture
def notebook(root: Path) -> Path:
    path = root / "a.ipynb"
    path.write_text(json.dumps({"cells": CELLS, "nbformat": 4, "metadata": {}}, indent=1))
    return path


def test_a_notebook_is_read_as_its_cells(call, notebook: Path) -> None:
    text = call(Read(), file_path="a.ipynb").text
    lines = [line.partition("\t")[2] for line in text.split("\n")]
    assert "\n".join(lines).startswith(SHOWN)
    assert "characters left out" in text
    assert len(text) < 4_000
    assert "[these are the cells of a notebook; the file is JSON" in text


def test_a_part_of_a_notebook_is_read_by_its_lines(call, notebook: Path) -> None:
    text = call(Read(), file_path="a.ipynb", offset=5, limit=2).text
    assert text.startswith('     5\t--- cell 2 of 3: code, run as [3] ---\n     6\tprint("a")\n[')
    assert "continue with offset=7" in text


def test_many_outputs_are_counted() -> None:
    cell = {"cell_type": "code", "source": "x", "outputs": [{"text": "y"}] * 25}
    text = render_notebook(json.dumps({"cells": [cell], "nbformat": 4}).encode())
    assert text is not None
    assert text.count("--- output ---") == 20
    assert "[5 more outputs]" in text


def test_an_output_of_no_known_kind_is_left_out() -> None:
    cell = {"cell_type": "code", "source": "x", "outputs": [{"output_type": {}}]}
    text = render_notebook(json.dumps({"cells": [cell], "nbformat": 4}).encode())
    assert text == "--- cell 1 of 1: code ---\nx\n--- output ---\n"


def test_the_third_format_has_worksheets() -> None:
    cell = {"cell_type": "code", "input": ["x = 1"], "prompt_number": 1, "outputs": []}
    data = {"nbformat": 3, "worksheets": [{"cells": [cell]}]}
    assert render_notebook(json.dumps(data).encode()) == (
        "--- cell 1 of 1: code, run as [1] ---\nx = 1\n"
    )


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"not JSON", b'{"nbformat": 4}', b'{"cells": []}'])
def test_what_is_not_a_notebook_is_read_as_text(call, root: Path, data: bytes) -> None:
    (root / "b.ipynb").write_bytes(data)
    assert call(Read(), file_path="b.ipynb").text == f"     1\t{data.decode()}"


def test_an_edit_changes_the_text_and_leaves_a_notebook(call, notebook: Path) -> None:
    call(Read(), file_path="a.ipynb")
    call(Edit(), file_path="a.ipynb", old_string="# Title", new_string="# Other")
    assert "# Other" in call(Read(), file_path="a.ipynb").text
    before = notebook.read_bytes()
    with pytest.raises(ToolError, match="would no longer be a notebook") as caught:
        call(Edit(), file_path="a.ipynb", old_string="# Other", new_string='a "quote"')
    assert "quotes and backslashes escaped" in caught.value.hint
    with pytest.raises(ToolError, match="not in a") as caught:
        call(Edit(), file_path="a.ipynb", old_string='print("a")\nplot()', new_string="x")
    assert "Grep shows that text" in caught.value.hint
    assert notebook.read_bytes() == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cells",
                    "source",
                    "outputs",
                    "data",
                    "text",
                    "cell_type",
                    "worksheets",
                    "traceback",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_is_read(cells: object, sheets: object) -> None:
    data = {"nbformat": 4, "cells": cells, "worksheets": sheets}
    assert isinstance(render_notebook(json.dumps(data).encode()), str | None)
