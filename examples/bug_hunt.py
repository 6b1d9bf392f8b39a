"""A bug hunt in three files at once: one agent per file, and a report of their findings.

    python examples/bug_hunt.py

In a terminal the plan is a list with live marks; elsewhere each change is a line. /quit leaves.
The model is scripted, so this needs no API key.
"""

import sys

import trio

from greenroom import AgentRuntime, AgentSession, ConsoleRenderer, Custom, FileStore, ModelRequest
from greenroom.flow import plan_and_execute
from greenroom.testing import ScriptedProvider, Step, call

FILES = {
    "basket.py": "def total(prices):\n    return sum(prices[1:])\n",
    "dates.py": "def is_leap(year):\n    return year % 4 == 0\n",
    "stack.py": "def push(item, stack=[]):\n    return stack + [item]\n",
}
BUGS = {
    "prices[1:]": "total leaves out the first price",
    "year % 4": "is_leap takes 1900 for a leap year",
    "stack=[]": "push has a list for its default",
}


async def read_file(name: str) -> str:
    """Read a file of the project."""
    await trio.sleep(0.3)  # time enough to see the plan
    return FILES[name]


async def report(findings: list[str]) -> str:
    """Report the findings."""
    return f"reported {len(findings)} bugs"


PLAN: list[dict[str, object]] = [
    {"id": name.removesuffix(".py"), "goal": f"Find the bug in {name}"} for name in FILES
]
PLAN += [
    {
        "id": "report",
        "goal": "Report the bugs",
        "tool": "report",
        "arguments": {"findings": ["{basket}", "{dates}", "{stack}"]},
        "after": ["basket", "dates", "stack"],
    }
]


def hunt(request: ModelRequest) -> Step:
    """Read the file in the goal, then name its bug."""
    seen = request.messages[-1]
    if not seen.tool_results:
        return call("read_file", name=seen.text.split()[-1])
    return next(bug for code, bug in BUGS.items() if code in seen.tool_results[0].text)


async def main() -> None:
    """Hunt bugs, and show the progress."""
    steps: list[Step] = [hunt] * 6
    llm = ScriptedProvider(
        call("final_answer", subtasks=PLAN), *steps, "Three files, three bugs: see the report."
    )
    session = AgentSession.new("bug hunt")
    async with AgentRuntime(FileStore("sessions")) as runtime:
        handle = runtime.spawn(session, plan_and_execute(llm, [read_file, report]))
        receipt = await handle.send_input("Find the bugs in basket.py, dates.py and stack.py.")
        if sys.stdin.isatty() and sys.stdout.isatty():
            await ConsoleRenderer(handle).run()
        else:
            async for chunk in handle.stream(receipt):
                if isinstance(chunk, Custom):
                    print(chunk.text)
            print((await handle.history())[-1].text)
    print(f"greenroom plan show {session.session_id} --sessions sessions")


if __name__ == "__main__":
    trio.run(main)
