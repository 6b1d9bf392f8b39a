"""ReAct: a model without tool calls looks up the weather and translates it, step by step.

    python examples/react.py

The model is scripted, so this needs no API key.
"""

import trio

import greenroom as gr
from greenroom.flow import react
from greenroom.testing import ScriptedProvider


async def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: light rain, 18 °C"


async def translate(text: str, language: str) -> str:
    """Translate a text into a language."""
    return {"French": "Tokyo : pluie légère, 18 °C"}[language]


async def main() -> None:
    """Ask once, and print what the model thinks, does and sees."""
    llm = ScriptedProvider(
        "Thought: First I need the weather.\nAction: get_weather\nAction Input: Tokyo",
        "I think the translation is next.",  # no action: it is asked again
        'Thought: Now the translation.\n```json\n{"tool": "translate", "args": {"text":'
        ' "Tokyo: light rain, 18 °C", "language": "French",}}\n```\nObservation: (made up)',
        "Thought: I have both.\nFinal Answer: Tokyo : pluie légère, 18 °C",
    )
    async with gr.AgentRuntime(store=gr.InMemoryStore()) as runtime:
        session = gr.AgentSession.new("react")
        handle = runtime.spawn(session, react(llm, [get_weather, translate]))
        async with handle.subscribe() as chunks:
            await handle.send_input("What's the weather in Tokyo, in French?")
            async for chunk in chunks:
                if isinstance(chunk, gr.Custom):
                    tell(chunk)
                elif isinstance(chunk, gr.Done):
                    break
        print("answer:", (await handle.history())[-1].text)


def tell(chunk: gr.Custom) -> None:
    """Print a step in one line."""
    match chunk.kind, chunk.data:
        case "react.thought" | "react.observation", {"text": text}:
            print(f"{chunk.kind.removeprefix('react.')}: {text}")
        case "react.action", {"tool": tool, "arguments": arguments}:
            print(f"action: {tool} {arguments}")
        case "react.reformat", _:
            print("asked again:", chunk.data["attempt"])
        case _:
            pass


if __name__ == "__main__":
    trio.run(main)
