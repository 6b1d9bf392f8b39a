"""The checkpoint of composite tools, on the example `research_and_summarize`."""

import runpy
from pathlib import Path

import pytest
from msgspec.structs import replace

from greenroom import AgentContext, ToolError
from greenroom.flow import Subtask, composite
from greenroom.flow._internal import PlanError

EXAMPLE = Path(__file__).parents[2] / "examples" / "research_and_summarize.py"
HERE = AgentContext(session_id="s", agent_type="a")
INPUT = {"topic": "tides", "depth": "short"}


def research(change=lambda step: step, fetch=lambda url: "x"):
    """Build the example's tool again with other steps; return it and the calls that it makes."""
    calls = []

    def web_search(query: str, limit: int) -> list[dict[str, str]]:
        """Search."""
        calls.append("search")
        return [{"url": f"{query}{n}"} for n in range(limit)]

    def read_page(url: str) -> str:
        """Read."""
        calls.append(url)
        return fetch(url)

    def extract_key_points(text: str) -> str:
        """Extract."""
        calls.append(f"points of {text}")
        return text.upper()

    def summarize(points: list[str], depth: str) -> str:
        """Sum up."""
        calls.append("summary")
        return f"{depth}: {points}"

    made = runpy.run_path(str(EXAMPLE))["research_and_summarize"]
    tool = composite(
        made.name,
        [change(step) for step in made.plan.subtasks if step.id != "input"],
        "{summary}",
        tools=[web_search, read_page, extract_key_points, summarize],
        description=made.description,
        parameters=made.parameters["properties"],
    )
    return tool, calls


@pytest.mark.checkpoint("7.1 a composite refuses a cycle")
def test_a_composite_validates_that_its_graph_has_no_cycle():
    def knot(step: Subtask) -> Subtask:
        return replace(step, after=("summary",)) if step.id == "search" else step

    with pytest.raises(PlanError, match=r"wait for each other: .*search → .*summary → search"):
        research(knot)


@pytest.mark.checkpoint("7.2 a composite runs in topological order")
async def test_a_composite_runs_its_steps_in_topological_order():
    tool, calls = research(fetch=lambda url: f"page {url}")
    await tool.execute(INPUT, HERE)
    place = {call: number for number, call in enumerate(calls)}
    assert len(calls) == 6
    for n in range(2):
        url = f"tides{n}"
        assert place["search"] < place[url] < place[f"points of page {url}"] < place["summary"]


@pytest.mark.checkpoint("7.3 a composite survives the failure of a step")
async def test_a_composite_ends_what_waits_for_a_failed_step():
    def fetch(url: str) -> str:
        if url == "tides1":
            raise OSError("no such page")
        return "text"

    tool, calls = research(fetch=fetch)
    with pytest.raises(
        ToolError, match=r"page1: .*no such page.* \(done: search, page0, points0\)"
    ):
        await tool.execute(INPUT, HERE)
    assert "summary" not in calls


@pytest.mark.checkpoint("7.4 a composite maps outputs to inputs")
async def test_a_composite_passes_outputs_on_to_later_steps():
    tool, _ = research(fetch=lambda url: f"page {url}")
    result = await tool.execute(INPUT, HERE)
    assert result.text == "short: ['PAGE TIDES0', 'PAGE TIDES1']"


@pytest.mark.checkpoint("7.5 a composite is drawn")
def test_a_composite_is_drawn_with_its_tools_and_the_flow_of_data():
    picture = research()[0].plan.to_mermaid()
    assert 'search["search: web_search"]' in picture
    edges = [line.strip() for line in picture.splitlines() if "-->" in line]
    assert edges == [
        "input --> search",
        "search --> page0",
        "search --> page1",
        "page0 --> points0",
        "page1 --> points1",
        "points0 --> summary",
        "points1 --> summary",
        "input --> summary",
    ]
