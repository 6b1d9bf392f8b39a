"""`serve_mcp` with the tools that the suite calls; it prints its URL: `python our_server.py`.

The suite sends no token, so one is added to each request before the guard sees it.
"""

import trio

from greenroom.agents._internal import Toolbox
from greenroom.core import AgentContext, ImageBlock, TextBlock, ToolError, ToolResult, UnknownBlock
from greenroom.interop import Tokens
from greenroom.interop._internal import LOCAL
from greenroom.interop.mcp.serve_http import serve_http
from greenroom.interop.mcp.served import ServedTools
from greenroom.runtime import AgentRuntime
from greenroom.runtime._internal import calling_internals
from greenroom.session import InMemoryStore
from greenroom.tools import tool
from tests.interop.server import PNG

PICTURE = ImageBlock(media_type="image/png", data=PNG)
SOUND = {"type": "audio", "mimeType": "audio/wav", "data": "UklGRiQAAABXQVZFZm10IA=="}


def resource(uri: str, kind: str, text: str) -> UnknownBlock:
    content = {"uri": uri, "mimeType": kind, "text": text}
    return UnknownBlock({"type": "resource", "resource": content})


def form(key: str, required: bool = True, **properties: object) -> dict[str, object]:
    """Make the form of a question that is called by this key."""
    wanted = {"required": [*properties]} if required else {}
    return {"type": "object", "title": key, "properties": properties, **wanted}


async def ask(text: str, fields: dict[str, object]) -> str:
    """Ask the person at the client, and return the answer in words."""
    agent = calling_internals()
    assert agent is not None
    answer = await agent.request_permission("test", text, fields=fields)
    return f"action={answer.decision}, content={dict(answer.input or {})}"


TEXT, YES = {"type": "string"}, {"type": "boolean"}
DEFAULTS = form(
    "defaults",
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
CHOICES = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
LEGACY = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Three"]}
ENUMS = form(
    "enums",
    required=False,
    untitledSingle={"type": "string", "enum": CHOICES},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", **LEGACY},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": CHOICES}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)


@tool
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
async def test_image_content() -> ToolResult:
    """Return a picture."""
    return ToolResult((PICTURE,))


@tool
async def test_audio_content() -> ToolResult:
    """Return a sound."""
    return ToolResult((UnknownBlock(SOUND),))


@tool
async def test_embedded_resource() -> ToolResult:
    """Return a resource."""
    text = "This is an embedded resource content."
    return ToolResult((resource("test://embedded-resource", "text/plain", text),))


@tool
async def test_multiple_content_types() -> ToolResult:
    """Return a text, a picture and a resource."""
    data = '{"test":"data","value":123}'
    mixed = resource("test://mixed-content-resource", "application/json", data)
    return ToolResult((TextBlock("Multiple content types test:"), PICTURE, mixed))


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(context: AgentContext) -> str:
    """Tell progress three times."""
    for number in (0, 50, 100):
        context.progress(f"{number} of 100\n")
        await trio.sleep(0.05)  # as the suite wants it
    return "done"


@tool
async def test_elicitation(message: str) -> str:
    """Ask for a name and an address."""
    return f"User response: {await ask(message, form('user', username=TEXT, email=TEXT))}"


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Ask with defaults."""
    return f"Elicitation completed: {await ask('Please check this', DEFAULTS)}"


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Ask with all kinds of choices."""
    return f"Elicitation completed: {await ask('Please choose', ENUMS)}"


@tool
async def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    return f"Hello, {await ask('What is your name?', form('user_name', name=TEXT))}!"


@tool
async def test_input_required_result_request_state() -> str:
    """Ask for a yes."""
    return f"state-ok: {await ask('Please confirm', form('confirm', ok=YES))}"


@tool
async def test_input_required_result_tampered_state() -> str:
    """Ask for a yes."""
    return await ask("Please confirm", form("confirm", ok=YES))


@tool
async def test_input_required_result_multi_round() -> str:
    """Ask twice."""
    name = await ask("Step 1: What is your name?", form("step1", name=TEXT))
    colour = await ask("Step 2: What is your favorite color?", form("step2", color=TEXT))
    return f"{name} {colour}"


TOOLS = [each for name, each in globals().items() if name.startswith("test_")]


async def main() -> None:
    tokens, token = Tokens.make("suite")
    header = (b"authorization", f"Bearer {token}".encode())

    def wrap(app):
        async def with_token(scope, receive, send):
            await app({**scope, "headers": [*scope["headers"], header]}, receive, send)

        return with_token

    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        served = ServedTools(runtime, Toolbox.of(TOOLS), None, nursery)

        async def serve(task_status):
            await serve_http(
                served,
                ("127.0.0.1", 0),
                tokens=tokens,
                hosts=LOCAL,
                wrap=wrap,
                task_status=task_status,
            )

        print(await nursery.start(serve), flush=True)


if __name__ == "__main__":
    trio.run(main)
