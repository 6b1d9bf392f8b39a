"""A trip that is planned again when the hotel is full; bookings that were made are kept."""

import trio

from greenroom import AgentRuntime, AgentSession, Custom, InMemoryStore
from greenroom.flow import plan_and_execute
from greenroom.testing import ScriptedProvider, call


async def book(what: str, day: str) -> dict[str, object]:
    """Book a flight, a hotel, a hostel or a museum for a day."""
    if what == "hotel":
        raise ValueError(f"no rooms left on {day}")
    return {"booked": what, "day": day}


def step(name: str, day: str, *after: str) -> dict[str, object]:
    """Write a subtask as a model does."""
    arguments = {"what": name, "day": day}
    return {"id": name, "goal": "", "tool": "book", "arguments": arguments, "after": after}


first = [
    step("flight", "Friday"),
    step("hotel", "{flight.day}", "flight"),
    step("museum", "{hotel.day}", "hotel"),
]
second = [step("hostel", "{flight.day}", "flight"), step("museum", "{hostel.day}", "hostel")]

llm = ScriptedProvider(  # or "anthropic:claude-sonnet-5-5"
    call("final_answer", subtasks=first),
    call("final_answer", subtasks=second),
    "You fly on Friday and sleep in a hostel: the hotel was full.",
)


async def main() -> None:
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("travel agent"), plan_and_execute(llm, [book]))
        receipt = await handle.send_input("A weekend in Oslo, please.")
        async for chunk in handle.stream(receipt):
            if isinstance(chunk, Custom):
                print(chunk.text)
        print((await handle.history())[-1].text)


trio.run(main)
