"""A support desk in the browser: customers ask, and a clerk agrees to refunds on the same page.

    pip install 'greenroom[serve]'
    python examples/browser_desk/desk.py                  # prints the link to open
    python examples/browser_desk/desk.py --model anthropic:claude-sonnet-5-5

What was paid back is in `refunds.txt`, conversations in `desk-sessions/`. A question waits also
while nobody looks, and over a restart of the server.
"""

import argparse
import re

import trio

from greenroom import (
    Agent,
    AgentRuntime,
    FileStore,
    Guard,
    LLMProvider,
    ModelRequest,
    PermissionManager,
    PermissionRule,
    Reject,
    RunContext,
    ToolError,
)
from greenroom.interop import WebServer
from greenroom.testing import ScriptedProvider, Step, call

ORDERS = {"4711": ("a lamp", 30), "4712": ("a chair", 120)}
MOST = 100  # euros that this desk may pay back


def find_order(number: str) -> str:
    """Return what was ordered, and what it cost."""
    if number not in ORDERS:
        raise ToolError(f"there is no order {number}; orders have four digits")
    item, price = ORDERS[number]
    return f"{item}, {price} euros"


async def refund(number: str, reason: str) -> str:
    """Pay an order back, once a clerk agrees."""
    _, price = ORDERS[number]
    if price > MOST:
        raise ToolError(f"{price} euros are more than this desk may pay back: {MOST}")
    async with await trio.open_file("refunds.txt", "a") as file:
        await file.write(f"{number} {price} {reason}\n")
    return f"{price} euros are on their way"


def no_card_numbers(context: RunContext, text: str) -> Reject | None:
    """Refuse a message with the number of a card in it: it is stored nowhere."""
    return Reject("it has the number of a card") if re.search(r"\d{13,16}", text) else None


def build(llm: LLMProvider | str) -> Agent:
    """Return the agent of the desk."""
    rules = [PermissionRule.allow_tool("find_order"), PermissionRule.ask_for_tool("refund")]
    return Agent(
        llm,
        instructions="You are the desk of a shop. Look an order up before you pay it back.",
        tools=[find_order, refund],
        permissions=PermissionManager(rules),
        guards=[Guard(no_card_numbers, on="input")],
        name="desk",
        description="Knows orders, and pays back what a clerk agrees to.",
    )


def play(request: ModelRequest) -> Step:
    """Stand in for a model: look an order up, ask for its money, and say what came of it."""
    said = request.messages[-1]
    if not said.tool_results:
        numbers = re.findall(r"\b\d{4}\b", said.text)
        return call("find_order", number=numbers[0]) if numbers else "Which order is it about?"
    result = said.tool_results[0]
    asked = next(each for each in reversed(request.messages) if each.tool_uses).tool_uses[0]
    if result.is_error or asked.name == "refund":
        return f"I am sorry: {result.text}" if result.is_error else f"Done: {result.text}."
    return call("refund", number=str(asked.input["number"]), reason="as the customer asked")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    desk = build(options.model or ScriptedProvider(*[play] * 10_000))
    async with AgentRuntime(FileStore("desk-sessions")) as runtime, trio.open_nursery() as nursery:
        server = WebServer(runtime, {"desk": desk})
        print(await nursery.start(server.serve, "127.0.0.1", options.port), flush=True)


if __name__ == "__main__":
    trio.run(main)
