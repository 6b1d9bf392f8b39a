"""One tool made of others: search, read the pages that were found, and sum them up."""

from greenroom import Agent, ModelRequest
from greenroom.flow import Subtask, composite
from greenroom.testing import ScriptedProvider, call

PAGES = {
    "tides.example": "The moon pulls the sea. That makes tides.",
    "moons.example": "Io has no sea. It has rock tides.",
}


def web_search(query: str, limit: int) -> list[dict[str, str]]:
    """Search the web."""
    return [{"url": url} for url, text in PAGES.items() if query in text][:limit]


def read_page(url: str) -> str:
    """Return the text of a page."""
    return PAGES[url]


async def extract_key_points(text: str) -> str:
    """Return what a text says in a few words."""
    result = await reader.run(text)
    return str(result.output)


def summarize(points: list[str], depth: str) -> str:
    """Write a summary of key points."""
    return f"A {depth} summary: {' '.join(points)}"


def model(request: ModelRequest) -> str:  # or "anthropic:claude-sonnet-5-5" for all requests
    return request.messages[0].text.split(". ")[-1]


reader = Agent(ScriptedProvider(model, model), instructions="Say what matters in this text.")
PLACES = range(2)
research_and_summarize = composite(
    "research_and_summarize",
    [
        Subtask("search", "", tool="web_search", arguments={"query": "{input.topic}", "limit": 2}),
        *(
            Subtask(f"page{n}", "", tool="read_page", arguments={"url": f"{{search.{n}.url}}"})
            for n in PLACES
        ),
        *(
            Subtask(f"points{n}", "", tool="extract_key_points", arguments={"text": f"{{page{n}}}"})
            for n in PLACES
        ),
        Subtask(
            "summary",
            "",
            tool="summarize",
            arguments={"points": ["{points0}", "{points1}"], "depth": "{input.depth}"},
        ),
    ],
    "{summary}",
    tools=[web_search, read_page, extract_key_points, summarize],
    description="Researches a topic on the web, and sums up what it finds.",
    parameters={"topic": {"type": "string"}, "depth": {"enum": ["short", "long"]}},
)

if __name__ == "__main__":
    print(research_and_summarize.plan.to_mermaid())
    llm = ScriptedProvider(
        call("research_and_summarize", topic="tides", depth="short"), "Tides are pulled by moons."
    )
    result = Agent(llm, tools=[research_and_summarize]).run_sync("What about tides?")
    print(result.messages[2].tool_results[0].text)
    # > A short summary: That makes tides. It has rock tides.
    print(result.output)
    # > Tides are pulled by moons.
