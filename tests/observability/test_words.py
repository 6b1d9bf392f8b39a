"""With content="none", no word of a conversation leaves but in the Recorder, which is for that."""

import logging

import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    FileStore,
    Guard,
    PermissionManager,
    PermissionRequest,
    PermissionRule,
    Reject,
    ToolError,
)
from greenroom.core import RuleDecision
from greenroom.llm import ModelOverloadedError
from greenroom.observability import (
    Audit,
    InvariantCheck,
    JsonLog,
    Ledger,
    Metrics,
    OpenTelemetry,
    Recorder,
    TraceFile,
    Tracer,
    span,
)
from greenroom.testing import Reply, ScriptedProvider, call

WORDS = {
    "instructions": "xylophone",
    "input": "marmalade",
    "steered": "quicksilver",
    "reply": "hippodrome",
    "thrown away": "kaleidoscope",
    "argument": "bandicoot",
    "result": "tarpaulin",
    "tool's error": "gobbledygook",
    "model's error": "flibbertigibbet",
    "answer to a question": "rigmarole",
    "guard's reason": "skulduggery",
    "subagent's task": "whippersnapper",
    "subagent's reply": "nincompoop",
    "progress": "bamboozle",
    "the user's span": "hullabaloo",
    "description of a tool": "lollygag",
    "an invented tool": "discombobulate",
}


def fetch(page: str) -> str:
    """Fetch and lollygag."""
    with span("own", about=WORDS["the user's span"]):
        return WORDS["result"]


def fail(page: str) -> str:
    """Fail."""
    raise ToolError(WORDS["tool's error"])


def make_agent():
    found = ScriptedProvider(WORDS["subagent's reply"])
    sub = Agent(found, name="Sub", description="Asks.").as_tool("ask")
    model = ScriptedProvider(
        [call("fetch", page=WORDS["argument"]), call("fail", page=WORDS["argument"])],
        [call("ask", prompt=WORDS["subagent's task"]), call(WORDS["an invented tool"])],
        Reply(WORDS["reply"]),
        Reply(WORDS["thrown away"], error=ModelOverloadedError(WORDS["model's error"])),
        Reply(WORDS["reply"], hangs=True),
    )

    def check(context, text):
        return Reject(WORDS["guard's reason"]) if "forbidden" in text else None

    return Agent(
        model,
        name="Ann",
        instructions=WORDS["instructions"],
        tools=[fetch, fail, sub],
        guards=[Guard(check, on="input")],
        permissions=PermissionManager(
            rules=[PermissionRule.ask_for_tool("fetch"), PermissionRule.allow_all()]
        ),
    )


async def answer(handle, task_status=trio.TASK_STATUS_IGNORED):
    async with handle.subscribe(replay="none", answers=True) as chunks:
        task_status.started()
        async for chunk in chunks:
            if isinstance(chunk, PermissionRequest):
                words = WORDS["answer to a question"]
                await handle.respond_permission(chunk.request_id, RuleDecision.ALLOW, message=words)


async def converse(runtime, store):
    handle = runtime.spawn(AgentSession.new("Ann", store=store), make_agent())
    async with trio.open_nursery() as nursery:
        await nursery.start(answer, handle)
        await handle.ask(WORDS["input"])
        await handle.ask(f"forbidden {WORDS['input']}")
        await handle.ask(WORDS["input"])
        nursery.start_soon(handle.ask, WORDS["input"])
        await trio.sleep(1)
        await handle.send_input(WORDS["steered"])
        await handle.interrupt()
        nursery.cancel_scope.cancel()
    await handle.shutdown()


async def test_no_word_leaves_without_content(tmp_path, collector):
    store, metrics = FileStore(tmp_path / "sessions"), Metrics()
    spans = logging.getLogger("test.words")
    handler = logging.FileHandler(tmp_path / "spans.log")
    handler.setFormatter(JsonLog())
    spans.addHandler(handler)
    spans.setLevel("DEBUG")
    spans.propagate = False
    try:
        async with (
            TraceFile() as file,
            Recorder() as recorder,
            Audit(tmp_path / "audit.jsonl") as audit,
        ):
            otel = OpenTelemetry(collector.tracers, collector.meters)
            tracer = Tracer(file, metrics, JsonLog(spans), otel, content="none")
            watchers = [tracer, recorder, Ledger(), InvariantCheck()]
            async with AgentRuntime(store, instruments=watchers, gates=[audit]) as runtime:
                await converse(runtime, store)
    finally:
        spans.removeHandler(handler)
        handler.close()
    conversation = ("history.jsonl", "metadata.json")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    recorded = [path for path in files if path.parent.name == "debugger"]
    others = {str(path): path.read_text() for path in files if path.name not in conversation}
    for path in recorded:
        del others[str(path)]
    others |= {"otlp": collector.sent, "metrics": metrics.text()}
    assert len(others) == 6  # two traces, the audit, the log, what OpenTelemetry sent, metrics
    assert all("fetch" in others[name] for name in others if "Sub" not in others[name])
    # An audit says which tool was called, even if there is none of that name.
    audit = next(name for name in others if name.endswith("audit.jsonl"))
    others[audit] = others[audit].replace(WORDS["an invented tool"], "")
    shown = [(word, name) for word in WORDS.values() for name in others if word in others[name]]
    assert shown == []
    in_recorder = "".join(path.read_text() for path in recorded)
    missing = {name for name, word in WORDS.items() if word not in in_recorder}
    assert missing <= {"guard's reason", "answer to a question", "progress", "the user's span"}
