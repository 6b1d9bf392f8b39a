"""The gate and the batch: nothing that a tool does comes through as anything but a result."""

import base64
import logging
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from greenroom.core import (
    AgentContext,
    Credential,
    ImageBlock,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
)
from greenroom.tools import ToolRegistry, tool
from tests.tools.batch import run_batch
from tests.tools.media import png


@dataclass
class Login:
    user: str


@pytest.fixture
def context(tmp_path):
    return AgentContext(session_id="s-1", agent_type="test", spill_folder=str(tmp_path / "out"))


def failing(*errors):
    @tool
    async def fail() -> str:
        if len(errors) > 1:
            raise BaseExceptionGroup("several", list(errors))
        raise errors[0]

    return ToolRegistry([fail])


async def test_an_unknown_name_is_answered_with_the_names_that_exist(context):
    @tool
    async def add(a: int) -> int:
        return a

    result = await ToolRegistry([add]).execute("ad", {}, context)
    assert result.is_error
    assert result.text == "There is no tool named 'ad'. The tools are: add."
    assert (await ToolRegistry().execute("ad", {}, context)).text.endswith("The tools are: none.")


@pytest.mark.checkpoint("1.2 validation rejects")
async def test_input_that_breaks_the_schema_never_reaches_the_tool(context):
    @tool
    async def add(a: int) -> int:
        raise AssertionError("must not run")

    result = await ToolRegistry([add]).execute("add", {"a": "x"}, context)
    assert result.status is ToolStatus.ERROR
    assert result.text == (
        "add was not run: its input does not fit.\n- a: expected integer, got string 'x'"
    )


@pytest.mark.checkpoint("1.5 an exception is a result")
async def test_an_exception_gives_the_model_type_and_message_and_the_log_the_traceback(
    context, caplog
):
    result = await failing(ValueError("bad luck")).execute("fail", {}, context)
    assert (result.status, result.text) == (ToolStatus.ERROR, "ValueError: bad luck")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("greenroom.tools", logging.ERROR)
    assert record.exc_info[1].args == ("bad luck",)


async def test_a_tool_error_is_told_in_its_own_words(context, caplog):
    error = ToolError("no such file", hint="list the folder")
    result = await failing(error).execute("fail", {}, context)
    assert result.text == "no such file (list the folder)"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_group_of_exceptions_is_told_leaf_by_leaf(context):
    leaves = [ValueError(f"v{n}") for n in range(4)]
    nested = ExceptionGroup("inner", [KeyError("k"), OSError("o"), ToolError("t")])
    result = await failing(*leaves, nested).execute("fail", {}, context)
    assert result.text == (
        "ValueError: v0; ValueError: v1; ValueError: v2; ValueError: v3; KeyError: 'k'; and 2 more"
    )


async def test_an_exception_without_a_readable_message_is_told_all_the_same(context):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    result = await failing(Odd()).execute("fail", {}, context)
    assert result.text == "Odd: (its message can't be read)"


async def test_a_huge_message_is_cut(context):
    result = await failing(ValueError("x" * 100_000)).execute("fail", {}, context)
    assert len(result.text) <= 4_100


class Rude(BaseException):
    """Such as asyncio.CancelledError, which `except Exception` does not catch either."""


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([SystemExit(2)], "SystemExit: 2"),
        ([Rude("bye")], "Rude: bye"),
        ([ValueError("v"), SystemExit(3)], "ValueError: v; SystemExit: 3"),
    ],
)
async def test_a_tool_that_wants_to_end_the_program_has_failed_and_no_more(context, errors, told):
    result = await failing(*errors).execute("fail", {}, context)
    assert (result.status, result.text) == (ToolStatus.ERROR, told)


async def test_a_thread_that_wants_to_end_the_program_has_failed_and_no_more(context):
    @tool
    def leave() -> str:
        sys.exit("usage: …")

    with trio.fail_after(60):
        result = await ToolRegistry([leave]).execute("leave", {}, context)
    assert (result.status, result.text) == (ToolStatus.ERROR, "SystemExit: usage: …")


class Shallow(logging.Handler):
    """Fails as formatting a deep group may."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        if record.exc_info:
            raise RecursionError
        self.messages.append(record.getMessage())


async def test_groups_nested_without_measure_are_told_leaf_by_leaf(context):
    deep: Exception = ValueError("at the bottom")
    for _ in range(3000):
        deep = ExceptionGroup("g", [deep])
    log, handler = logging.getLogger("greenroom.tools"), Shallow()
    log.addHandler(handler)
    try:
        result = await failing(deep).execute("fail", {}, context)
    finally:
        log.removeHandler(handler)
    assert (result.status, result.text) == (ToolStatus.ERROR, "ValueError: at the bottom")
    assert handler.messages[0].startswith("tool fail raised: ValueError: at the bottom\n")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
async def test_what_is_about_more_than_the_call_passes(context, error):
    registry = failing(error)
    with pytest.raises(type(error)):
        await registry.execute("fail", {}, context)


async def test_of_a_mixed_group_only_what_is_about_more_than_the_call_passes(context, caplog):
    with pytest.raises(BaseExceptionGroup) as caught:
        await failing(ValueError("lost"), KeyboardInterrupt()).execute("fail", {}, context)
    assert [type(error) for error in caught.value.exceptions] == [KeyboardInterrupt]
    assert "fail raised" in caplog.text


async def test_a_group_without_failures_passes_unlogged(context, caplog):
    errors = [KeyboardInterrupt(), GeneratorExit()]
    with pytest.raises(BaseExceptionGroup):
        await failing(*errors).execute("fail", {}, context)
    assert not caplog.records


@pytest.mark.checkpoint("1.3 time-out enforced")
async def test_a_call_is_stopped_at_its_time_out(context, autojump_clock):
    @tool(timeout=1.5)
    async def sleep() -> str:
        await trio.sleep_forever()
        return ""

    started = trio.current_time()
    result = await ToolRegistry([sleep]).execute("sleep", {}, context)
    assert trio.current_time() - started == 1.5
    assert result.status is ToolStatus.TIMEOUT
    assert result.text == "sleep was stopped: it did not finish within 1.5 seconds."


async def test_a_failure_while_being_stopped_is_an_error(context, autojump_clock):
    async def fail_late():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while closing")

    @tool(timeout=1)
    async def messy() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_late)
            await trio.sleep_forever()
        return ""

    result = await ToolRegistry([messy]).execute("messy", {}, context)
    assert (result.status, result.text) == (ToolStatus.ERROR, "ValueError: while closing")


async def test_a_cancel_passes_and_a_failure_beside_it_is_logged(context, caplog):
    async def fail_late():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while closing")

    @tool
    async def messy() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_late)
            await trio.sleep_forever()
        return ""

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ToolRegistry([messy]).execute, "messy", {}, context)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert "while closing" in caplog.text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "Odd returned object, which can't be written as JSON"),
        (ToolResult((TextBlock("a", 3),)), "Odd returned a result that can't be used"),
        (ToolResult((), "fine"), "Odd returned a result that can't be used"),
        (ToolResult((), metadata={"a": object()}), "Odd returned a result that can't be used"),
    ],
)
async def test_a_result_of_no_use_is_an_error(context, value, message):
    class Odd:
        name, description, category = "Odd", "", "read"
        parameters = {"type": "object"}

        def info(self, input):
            raise NotImplementedError

        async def execute(self, input, context):
            return value

    result = await ToolRegistry([Odd()]).execute("Odd", {}, context)
    assert result.is_error
    assert message in result.text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (ToolResult.ok("fine"), ""),
        (ToolResult.error("\n no such file \nlook elsewhere"), "no such file"),
        (ToolResult.error("That did not work.", error_message="errno 5"), "errno 5"),
        (ToolResult((TextBlock("broke\nbadly"),), ToolStatus.ERROR), "broke"),
        (ToolResult((), ToolStatus.TIMEOUT), "timeout"),
        (ToolResult.error("it broke", error_message="\ud800"), "\ufffd"),
    ],
)
async def test_a_failed_result_says_what_went_wrong_apart_from_what_the_model_is_told(
    context, given, message
):
    @tool
    async def work() -> ToolResult:
        return given

    result = await ToolRegistry([work]).execute("work", {}, context)
    assert result.error_message == message
    assert result.text == given.text
    assert message in ("", "no such file", "broke") or message not in result.block("t").text


async def test_what_went_wrong_is_told_of_every_failure_and_stays_short(context):
    @tool(timeout=1e-3)
    async def slow(text: str) -> ToolResult:
        if text == "hang":
            await trio.sleep_forever()
        if text == "raise":
            raise ValueError("no such place")
        return ToolResult.error(text, error_message=text)

    registry = ToolRegistry([slow])
    found = [
        (await registry.execute("slow", input, context)).error_message
        for input in ({}, {"text": "hang"}, {"text": "raise"}, {"text": "x" * 100_000})
    ]
    assert found[:3] == [
        "slow was not run: its input does not fit.",
        "slow was stopped: it did not finish within 0.001 seconds.",
        "ValueError: no such place",
    ]
    assert 1_900 < len(found[3]) <= 2_000


async def test_lone_surrogates_are_mended(context):
    @tool
    async def odd() -> ToolResult:
        return ToolResult((TextBlock("a\ud800b"),), metadata={"k\udfff": "\ud800"})

    result = await ToolRegistry([odd]).execute("odd", {}, context)
    assert result.text == "a\ufffdb"
    assert result.facts == {"k\ufffd": "\ufffd"}


async def test_a_long_text_is_cut_and_kept_in_a_file_that_the_result_names(context):
    image = ImageBlock("image/png", base64.b64encode(png()).decode())

    @tool
    async def long() -> ToolResult:
        return ToolResult((TextBlock("a" * 20_000), image, TextBlock("b\ud800" * 20_000)))

    result = await ToolRegistry([long]).execute("long", {}, context)
    assert len(result.text) <= 30_000
    assert result.text.startswith("aaa")
    assert result.text.endswith("b\ufffdb\ufffd")
    assert "60,001 characters in all" in result.text
    path = result.metadata["spill_file"]
    assert path in result.text
    assert path.startswith(context.spill_folder)
    kept = await trio.Path(path).read_text(encoding="utf-8")
    assert kept == "a" * 20_000 + "\n" + "b\ufffd" * 20_000
    assert result.content[1] == image


class Recorder:
    """A concurrent tool that says when it runs, and waits to be let on."""

    description, category, parameters = "", "read", {"type": "object"}

    def __init__(self, name="Wait", concurrent=True):
        self.name = name
        self.concurrent = concurrent
        self.running = 0
        self.most = 0
        self.order = []
        self.gate = trio.Event()

    def info(self, input):
        raise NotImplementedError

    async def execute(self, input, context):
        self.order.append(input["n"])
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if input.get("hold"):
                await self.gate.wait()
            await trio.lowlevel.checkpoint()
        finally:
            self.running -= 1
        if input.get("fail"):
            raise ValueError(str(input["n"]))
        return ToolResult.ok(str(input["n"]))


def calls(context, count, **more):
    return [("Wait", {"n": n, **more}, context) for n in range(count)]


async def test_concurrent_calls_run_side_by_side_up_to_the_limit_and_begin_in_order(context):
    recorder = Recorder()
    registry = ToolRegistry([recorder])
    results = await run_batch(calls(context, 9), registry, limit=3)
    assert recorder.most == 3
    assert recorder.order == list(range(9))
    assert [result.text for result in results] == [str(n) for n in range(9)]


async def test_results_keep_the_calls_order_however_they_end(context):
    recorder = Recorder()
    seen = []
    held = [("Wait", {"n": 0, "hold": True}, context), ("Wait", {"n": 1}, context)]

    def on_result(index, result):
        seen.append(index)
        recorder.gate.set()

    results = await run_batch(held, ToolRegistry([recorder]), on_result=on_result)
    assert seen == [1, 0]
    assert [result.text for result in results] == ["0", "1"]


@pytest.mark.parametrize("other", [Recorder("Other", concurrent=False), None])
async def test_a_call_that_is_not_concurrent_runs_between_those_before_and_after_it(context, other):
    recorder, ended = Recorder(), []
    registry = ToolRegistry([recorder, other] if other else [recorder])
    batch = [*calls(context, 3), ("Other", {"n": 3}, context), *calls(context, 2)]
    results = await run_batch(batch, registry, on_result=lambda index, _: ended.append(index))
    assert recorder.most == 3 if other else 5  # an unknown tool is answered beside them
    assert not other or ended.index(3) == 3
    assert len(results) == 6


@pytest.mark.parametrize("concurrent", [True, False])
async def test_one_failure_never_stops_the_others(context, concurrent):
    registry = ToolRegistry([Recorder(concurrent=concurrent)])
    batch = [
        ("Wait", {"n": 0, "fail": True}, context),
        ("Wait", {"n": 1}, context),
        ("Wait", {"n": 2, "fail": True}, context),
        ("Wait", {"n": 3}, context),
    ]
    results = await run_batch(batch, registry)
    assert [result.is_error for result in results] == [True, False, True, False]


@pytest.mark.parametrize("concurrent", [True, False])
async def test_on_a_cancel_what_had_ended_has_been_reported(context, concurrent):
    recorder = Recorder(concurrent=concurrent)
    reported = {}
    batch = [*calls(context, 2), ("Wait", {"n": 2, "hold": True}, context)]
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_batch, batch, ToolRegistry([recorder]), 5, reported.__setitem__)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert {index: result.text for index, result in reported.items()} == {0: "0", 1: "1"}
    assert recorder.running == 0


async def test_at_least_one_call_runs_at_a_time(context):
    results = await run_batch(calls(context, 2), ToolRegistry([Recorder()]), limit=0)
    assert [result.text for result in results] == ["0", "1"]


async def test_no_calls_give_no_results():
    assert await run_batch([], ToolRegistry()) == []


KEY = "sk-ant-api03-Zm9vYmFyMTIz"


@pytest.mark.parametrize("kind", [ToolError, ValueError])
async def test_a_key_in_an_exception_reaches_neither_the_model_nor_the_log(kind, context, caplog):
    caplog.set_level(logging.DEBUG)
    result = await failing(kind(f"401 for https://ann:pa55word@host, key {KEY}")).execute(
        "fail", {}, context
    )
    assert "401 for https://[secret]@host, key [secret]" in result.text
    assert KEY not in repr(result) + caplog.text
    assert "401 for https://[secret]@host" in caplog.text


async def test_a_credential_in_an_exception_is_not_logged(context, caplog):
    shop = Credential("shop token")
    shop.give(context.resources, "swordfish")
    result = await failing(ValueError("refused: swordfish")).execute("fail", {}, context)
    assert result.text == "ValueError: refused: [shop token]"
    assert "swordfish" not in caplog.text
    assert "refused: [shop token]" in caplog.text


async def test_the_facts_of_a_result_hold_no_key_and_its_text_is_the_tool_s_own(context):
    @tool
    def look() -> ToolResult:
        return ToolResult.ok(f"found {KEY}", headers=[{"authorization": f"Bearer {KEY}"}], n=1)

    result = await ToolRegistry([look]).execute("look", {}, context)
    assert result.facts == {"headers": [{"authorization": "Bearer [secret]"}], "n": 1}
    assert result.text == f"found {KEY}"


@pytest.mark.parametrize("message", [f"401 for {KEY}", ""])
async def test_the_error_message_of_a_result_holds_no_key(context, message):
    @tool
    def look() -> ToolResult:
        return ToolResult.error(f"refused: {KEY}", error_message=message)

    result = await ToolRegistry([look]).execute("look", {}, context)
    assert result.error_message in ("401 for [secret]", "refused: [secret]")
    assert result.text == f"refused: {KEY}"


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        ({"a": {"ghp_abcdefghij0123456789abcdef"}}, {"a": ["[secret]"]}),
        ({"a": frozenset({"x"}), "b": (1, 2)}, {"a": ["x"], "b": [1, 2]}),
        ({"a": Login("ghp_abcdefghij0123456789abcdef")}, {"a": {"user": "[secret]"}}),
        ({"api_key": "hunter2pass99"}, {"api_key": "[secret]"}),
        ({"a": [{"password": ["hunter2pass99"]}]}, {"a": [{"password": ["[secret]"]}]}),
        ({"key": "a: 1", "token": "abc", "n": 2**70}, {"key": "a: 1", "token": "abc", "n": 2**70}),
    ],
)
async def test_no_shape_of_metadata_hides_a_secret(context, metadata, stored):
    @tool
    async def look() -> ToolResult:
        """Look."""
        return ToolResult((), metadata=metadata)

    result = await ToolRegistry([look]).execute("look", {}, context)
    assert result.facts == stored


async def test_a_result_says_how_long_its_call_took_and_of_which_version_the_tool_is(
    context, autojump_clock
):
    @tool(version="1.2")
    async def rest(seconds: float) -> str:
        await trio.sleep(seconds)
        return "rested"

    tools = ToolRegistry([rest])
    result = await tools.execute("rest", {"seconds": 1.5}, context)
    assert result.metadata == {"validation_ms": 0, "execution_ms": 1500, "version": "1.2"}
    assert result == ToolResult.ok("rested")
    assert result.facts == {}


@pytest.mark.parametrize(
    ("name", "input", "error"),
    [
        ("fail", {"how": "key"}, "KeyError"),
        ("fail", {"how": "tool"}, "ToolError"),
        ("fail", {"how": "result"}, "ToolError"),
        ("fail", {"how": "time"}, "TimeoutError"),
        ("fail", {"how": 1}, "InvalidInputError"),
        ("absent", {}, "UnknownToolError"),
    ],
)
async def test_a_failure_says_its_class(context, autojump_clock, name, input, error):
    @tool(timeout=1)
    async def fail(how: str) -> ToolResult:
        if how == "time":
            await trio.sleep_forever()
        if how == "result":
            return ToolResult.error("no")
        raise {"key": KeyError, "tool": ToolError}[how]("no")

    result = await ToolRegistry([fail]).execute(name, input, context)
    assert result.metadata["error"] == error
    assert "error" not in result.facts


@pytest.mark.parametrize(
    ("value", "text", "status"),
    [
        ("text", "text", "success"),
        (None, "done", "success"),
        ({"a": (1, 2)}, '{"a":[1,2]}', "success"),
        (SimpleNamespace(content="no", is_error=True), "no", "error"),
    ],
)
async def test_what_a_tool_returns_becomes_a_result(context, value, text, status):
    class Plain:
        name, description, category = "Plain", "", "read"
        parameters = {"type": "object"}

        def info(self, input):
            raise NotImplementedError

        async def execute(self, input, context):
            return value

    result = await ToolRegistry([Plain()]).execute("Plain", {}, context)
    assert (result.text, result.status) == (text, status)


async def test_a_tool_may_change_its_arguments_and_nobody_else_sees_it(context):
    class Sort:
        name, description, category = "Sort", "", "read"
        parameters = {"type": "object"}

        def info(self, input):
            return ToolInfo(str(input.pop("items")))

        def effects(self, input, context):
            input["items"].clear()
            return ()

        async def precheck(self, input, context):
            input["items"].clear()

        async def execute(self, input, context):
            input["items"].sort()
            return ToolResult.ok(str(input.pop("items")))

    call = ToolUseBlock("t1", "Sort", {"items": [2, 1]})
    found = ToolRegistry([Sort()]).get("Sort")
    assert found.info(call.input).action == "[2, 1]"
    assert found.effects(call.input, context) == ()
    assert await found.precheck(call.input, context) is None
    assert (await found.execute(call.input, context)).text == "[1, 2]"
    assert call.input == {"items": [2, 1]}
