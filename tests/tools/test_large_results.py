"""Results that are large: they are handled in a thread, so the other agents go on."""

import dataclasses

import pytest
import trio

from greenroom.core import AgentContext, ImageBlock, TextBlock, ToolResult, tooling
from greenroom.threads.shared_threads import is_large, run_heavy
from greenroom.tools import ToolRegistry, as_tool, execution, tool
from greenroom.tools.execution import MAX_FILE, MAX_TEXT


@dataclasses.dataclass
class Row:
    name: str


LARGE = "é" * 200_000


@pytest.mark.parametrize(
    "value",
    [LARGE, LARGE.encode(), [LARGE], {"a": ({LARGE},)}, Row(LARGE), [[Row("x")] * 60_000] * 2,
     ToolResult.ok(LARGE), ToolResult((ImageBlock("image/png", "A" * 200_000),))],
)  # fmt: skip
def test_a_value_is_large_wherever_its_parts_are(value):
    assert is_large(value)


@pytest.mark.parametrize("value", [None, "a", [1] * 1000, {"a": Row("x")}, object(), ToolResult()])
def test_a_usual_value_is_not(value):
    assert not is_large(value)


def test_looking_at_a_value_that_holds_itself_ends():
    value = []
    value.append(value)
    assert is_large(value)


async def thread_of(value):
    """Tell whether work on this value holds up the loop."""
    return await run_heavy(trio.lowlevel.in_trio_run, value)


async def test_work_on_a_large_value_is_done_in_a_thread():
    assert await thread_of("a")
    assert not await thread_of(LARGE)


RESULTS = {
    "text": LARGE * 2,
    "JSON": [{"row": LARGE}, {"row": LARGE}],
    "result": ToolResult((TextBlock(LARGE), TextBlock(LARGE)), metadata={"all": [LARGE]}),
}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("way", ["async", "plain", "adapted"])
async def test_nothing_of_a_large_result_is_converted_in_the_loop(kind, way, tmp_path, monkeypatch):
    """Whatever copies or encodes such a text takes milliseconds for each megabyte."""
    where = set()

    def spy(name, original):
        def spied(value, *rest, **more):
            if is_large(value):
                where.add((name, trio.lowlevel.in_trio_run()))
            return original(value, *rest, **more)

        monkeypatch.setattr(name, spied)

    spy("greenroom.core.tooling.valid_unicode", tooling.valid_unicode)
    spy("greenroom.tools.execution.conceal", execution.conceal)
    spy("greenroom.tools.execution.leave_out_faulty_media", execution.leave_out_faulty_media)
    spy("greenroom.tools.execution.valid_unicode", execution.valid_unicode)

    async def look() -> object:
        """Look."""
        return RESULTS[kind]

    def look_plain() -> object:
        """Look."""
        return RESULTS[kind]

    class Adapted:
        name = "look"
        schema = {"type": "object", "properties": {}}

        async def execute(self):
            return RESULTS[kind]

    made = {"async": look, "plain": look_plain, "adapted": Adapted()}[way]
    registry = ToolRegistry([as_tool(made) if way == "adapted" else tool(name="look")(made)])
    context = AgentContext(session_id="s", agent_type="t", spill_folder=str(tmp_path / "out"))
    result = await registry.execute("look", {}, context)
    assert len(result.text) <= MAX_TEXT
    assert where
    assert {name for name, in_loop in where if in_loop} == set()


async def test_of_a_huge_text_the_file_has_head_and_tail(tmp_path):
    huge = "a" * (MAX_FILE + 10) + "z"

    @tool
    async def look() -> str:
        """Look."""
        return huge

    context = AgentContext(session_id="s", agent_type="t", spill_folder=str(tmp_path))
    result = await ToolRegistry([look]).execute("look", {}, context)
    assert "20,000,011 characters in all" in result.text
    [file] = tmp_path.iterdir()
    assert file.stat().st_size <= MAX_FILE + 200
    assert file.read_text().endswith("z")
