"""Tools without an agent: a built-in one, two of your own, and calls that go wrong.

python examples/own_tool.py
"""

import trio

from greenroom import AgentContext, ToolRegistry, tool
from greenroom.tools import calculator


@tool
async def ship(grams: int, express: bool = False) -> str:
    """Return the price of sending a parcel.

    Args:
        grams: Its weight.
        express: Whether it is urgent.
    """
    if grams > 20_000:
        raise ValueError(f"{grams} g is too heavy")
    return f"{grams / 100 * (2 if express else 1):.2f} euros"


@tool(timeout=0.2)
async def wait_for_parcel() -> str:
    """Wait forever."""
    await trio.sleep_forever()
    return "it is here"


async def main() -> None:
    """Register tools at run time, and call them with good and bad arguments."""
    registry = ToolRegistry([calculator])
    registry.register(ship)
    registry.register(wait_for_parcel)
    print(", ".join(registry.list_tools()))
    context = AgentContext(session_id="s-1", agent_type="shop")
    calls: list[tuple[str, dict[str, object]]] = [
        ("calculator", {"expression": "15 * 3"}),
        ("ship", {"grams": 500, "express": True}),
        ("ship", {"grams": "heavy"}),
        ("ship", {"grams": 30_000}),
        ("wait_for_parcel", {}),
    ]
    for name, arguments in calls:
        result = await registry.execute(name, arguments, context)
        print(f"{result.status}: {result.text}")


if __name__ == "__main__":
    trio.run(main)
