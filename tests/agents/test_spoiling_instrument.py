"""What an instrument does to what it is given reaches nobody: no model, no tool, no file."""

import contextlib
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import partial
from typing import get_args

import msgspec
import trio

from greenroom.agents import Task, coder
from greenroom.core import AgentContext, ToolUseBlock
from greenroom.core._internal import Hook, seed_ids, serde, set_clock
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool

KEPT = {"resources"}  # of a context, which are shared objects and no values


def spoil(value, seen=None):
    """Try every change of a value, and of all that is in it."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, str | int | float | bytes | type(None) | type):
        return
    seen.add(id(value))
    inner = []
    if isinstance(value, msgspec.Struct):
        inner = [(name, getattr(value, name)) for name in value.__struct_fields__]
    elif is_dataclass(value):
        names = (each.name for each in fields(value) if each.name not in KEPT)
        inner = [(name, getattr(value, name)) for name in names]
    if inner:
        for name, each in inner:
            spoil(each, seen)
            with contextlib.suppress(AttributeError, TypeError):
                setattr(value, name, "***")
        return
    for each in (
        list(value.values() if isinstance(value, dict) else value)
        if isinstance(value, dict | list | tuple)
        else ()
    ):
        spoil(each, seen)
    keys = list(value) if isinstance(value, dict) else [0]
    changes = [
        *(partial(value.__setitem__, key, "***") for key in keys if hasattr(value, "__setitem__")),
        *(
            partial(method, *arguments)
            for name in ("append", "insert", "pop", "popitem", "setdefault", "update", "sort",
                         "reverse", "clear", "__ior__", "__iadd__", "__imul__", "__init__")
            if (method := getattr(value, name, None))
            for arguments in ((), ("***",), (0, "***"), ({"***": 1},), (["***"],), (0,))
        ),
    ]  # fmt: skip
    for change in changes:
        with contextlib.suppress(Exception):
            change()


def spoil_all(self, agent, *details):
    for each in (*details, agent):
        spoil(each)


Spoiler = type("Spoiler", (), dict.fromkeys(get_args(Hook), spoil_all))


async def run(folder, *instruments):
    """Run an agent with tools, a question and a subagent; return what came of it."""
    seed_ids(7)
    set_clock(lambda: datetime(2026, 1, 14, tzinfo=UTC))
    ran = []

    @tool(category="read")
    async def order(items: list[int], options: dict[str, list[str]], context: AgentContext) -> str:
        """Order things."""
        ran.append(serde.dumps([items, options, str(context.workspace.cwd)]))
        items.sort()
        options.pop("a").append("b")
        context.set_metadata("last", {"items": items})
        return str(items)

    items = {"items": [2, 1], "options": {"a": ["x"], "b": []}}
    steps = (
        call("order", **items),
        call("ask", **items),
        call("Task", description="look", prompt="go on"),
        call("order", **items),
        "below",
        "done",
    )
    model = ScriptedProvider(*steps)
    ask = tool(name="ask")(order._function)
    try:
        async with AgentRuntime(FileStore(folder), instruments=instruments) as runtime:
            session = AgentSession.new("coder", session_id="s")
            rules = PermissionManager([PermissionRule.allow_tool("order", "Task")])
            handle = runtime.spawn(session, parent, model, ToolRegistry([order, ask]), rules)
            async with handle.subscribe(answers=True) as chunks:
                await handle.send_input("go", metadata={"a": {"b": [1]}})
                async for chunk in chunks:
                    if type(chunk).__name__ == "PermissionRequest":
                        await handle.respond_permission(chunk.request_id, "allow")
                    if type(chunk).__name__ == "Done":
                        break
    finally:
        set_clock(None)
        seed_ids(None)
    requests = [serde.encode(each.messages) + serde.encode(each.tools) for each in model.requests]
    files = {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.json*"))
    }
    return ran, requests, files


async def parent(agent, model, tools, rules):
    worker = partial(coder, llm=model, tools=tools, permissions=rules)
    await coder(agent, model, tools.with_tools(Task(agent, worker)), rules)


async def test_an_instrument_that_writes_into_all_that_it_gets_changes_nothing(tmp_path):
    plain = await run(tmp_path / "plain")
    spoiled = await run(tmp_path / "spoiled", Spoiler())
    assert len(plain[0]) == 3
    assert len(plain[1]) == 6
    assert plain[2]
    assert spoiled == plain


async def test_what_a_hook_does_to_a_request_reaches_no_registry():
    @tool(category="read")
    async def look(label: str) -> str:
        """Look at something."""
        return label

    class Changing:
        def before_model_call(self, agent, call):
            with contextlib.suppress(TypeError):
                call.request.tools[0].parameters["properties"]["label"]["type"] = "integer"

    tools = ToolRegistry([look])
    before = serde.encode(tools.definitions())
    async with AgentRuntime(instruments=[Changing()]) as runtime, trio.open_nursery():
        model = ScriptedProvider("done")
        session = AgentSession.new("coder")
        await runtime.spawn(session, coder, model, tools, PermissionManager()).ask("go")
    assert serde.encode(tools.definitions()) == before


def test_a_call_keeps_what_it_was_made_of():
    given = {"items": [1]}
    made = ToolUseBlock("t1", "order", given)
    given["items"].clear()
    assert made.input == {"items": [1]}
