"""No sink and no record shows a secret, whatever of the conversation may leave."""

import io
import json
import logging
import os

import pytest
import trio

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    ConfigurationError,
    FileStore,
    InMemoryStore,
    ToolError,
)
from greenroom.core import Credential
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.observability import (
    Audit,
    JsonLog,
    Metrics,
    OpenTelemetry,
    Recorder,
    Redactor,
    TraceFile,
    Tracer,
    configure_logging,
    json_log,
    span,
)
from greenroom.testing import Reply, ScriptedProvider, call

SECRETS = {
    "vendor": "sk-proj-Zq8x7Yw6Vv5Uu4Tt3Ss2Rr1",
    "bearer": "Bearer eyOpaque9Token8Value7",
    "basic": "Basic YWxhZGRpbjpvcGVuc2VzYW1l9",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----",
    "url": "https://ann:pa55word99@example.org/x",
    "field": "api_key=Zz9Yy8Xx7Ww6Vv5",
    "variable": "variable-value-12345",
    "credential": "credential-value-67890",
    "pattern": "ACME-778899",
}
MARKS = [
    "Zq8x7Yw6Vv5Uu4Tt3Ss2Rr1",
    "eyOpaque9Token8Value7",
    "YWxhZGRpbjpvcGVuc2VzYW1l9",
    "SflKxwRJSMeKKF2QT4",
    "MIIEvQIBADANBg",
    "pa55word99",
    "Zz9Yy8Xx7Ww6Vv5",
    "variable-value-12345",
    "credential-value-67890",
    "ACME-778899",
    "named-by-its-field",
]
TEXT = "\n".join(SECRETS.values())


def leak(text: str, settings: dict[str, str]) -> str:
    """Return what it was given."""
    return f"{text} {len(settings)}"


def fail(text: str) -> str:
    """Fail with what it was given."""
    raise ToolError(f"failed with {text}")


@pytest.mark.parametrize("content", ["none", "redacted", "full"])
async def test_no_sink_shows_a_secret(tmp_path, monkeypatch, collector, content):
    monkeypatch.setenv("SHOP_API_KEY", SECRETS["variable"])
    redact = Redactor(patterns=[r"ACME-\d+"])
    log = logging.getLogger("test.spans")
    handler = logging.FileHandler(tmp_path / "log.jsonl")
    handler.setFormatter(JsonLog(redact=redact))
    log.addHandler(handler)
    log.setLevel("DEBUG")
    monkeypatch.setattr(log, "propagate", False)
    metrics = Metrics()
    calls = [
        call("leak", text=TEXT, settings={"password": "named-by-its-field"}),
        call("fail", text=TEXT),
        call(f"unknown {SECRETS['vendor']}"),
    ]
    agent = Agent(ScriptedProvider(calls, TEXT), instructions=TEXT, tools=[leak, fail])
    async with (
        TraceFile() as file,
        Recorder(redact=redact) as recorder,
        Audit(tmp_path / "audit.jsonl", redact=redact) as audit,
    ):
        otel = OpenTelemetry(collector.tracers, collector.meters)
        sinks = (file, metrics, JsonLog(log, redact=redact), otel)
        tracer = Tracer(*sinks, content=content, redact=redact)
        async with AgentRuntime(
            FileStore(tmp_path / "sessions"), instruments=[tracer, recorder], gates=[audit]
        ) as runtime:
            Credential("shop").give(runtime.resources, SECRETS["credential"])
            await agent.run(TEXT, runtime=runtime)
            log.info("said %s", TEXT, extra={"header": SECRETS["bearer"]})
    handler.close()
    log.removeHandler(handler)
    files = [path for path in tmp_path.rglob("*.json*") if path.name != "history.jsonl"]
    assert "execute_tool leak" in collector.sent
    written = [metrics.text(), collector.sent, *(path.read_text() for path in files)]
    assert len(written) > 8
    if content != "none":
        assert any("failed with" in each for each in written)
    shown = {mark for mark in MARKS for each in written if mark in each}
    # "full" leaves out what is always hidden, and no more.
    assert shown - {SECRETS["credential"]} == ({"ACME-778899"} if content == "full" else set())
    # What is logged outside of any agent knows no credential of one.
    by_us = [path for path in files if path.name != "log.jsonl"]
    assert not [path for path in by_us if SECRETS["credential"] in path.read_text()]
    assert SECRETS["credential"] not in collector.sent


def test_fields_are_hidden_whatever_they_hold():
    redact = Redactor(fields=["Patient"])
    hidden = redact(
        {"PATIENT": {"name": "Ann"}, "accessToken": 17, "tokens": 3, "key": "k", "a": [1]}
    )
    assert hidden == {
        "PATIENT": "[secret]",
        "accessToken": "[secret]",
        "tokens": 3,
        "key": "[secret]",
        "a": [1],
    }


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match="is not a regular expression"):
        Redactor(patterns=["("])


async def test_log_lines_know_the_call_that_they_belong_to(tmp_path):
    handler = configure_logging(tmp_path / "greenroom.log", "DEBUG")
    again = configure_logging(tmp_path / "greenroom.log", "DEBUG")
    logger = logging.getLogger("greenroom")
    try:
        assert [each for each in logger.handlers if each in (handler, again)] == [again]

        async def shout(text: str) -> str:
            """Log it."""
            with span("shouting"):
                logger.warning("heard %s", text)
            try:
                raise ValueError(text)
            except ValueError:
                logger.exception("it failed")
            await trio.lowlevel.checkpoint()
            return text

        text = "hello crayfish-77"
        agent = Agent(ScriptedProvider([call("shout", text=text)], "done"), tools=[shout])
        async with AgentRuntime(FileStore(tmp_path), instruments=[Tracer()]) as runtime:
            Credential("shop").give(runtime.resources, "crayfish-77")
            result = await agent.run("Go.", runtime=runtime)
        again.close()
        lines = (tmp_path / "greenroom.log").read_text().splitlines()
        assert not [each for each in lines if "crayfish" in each]
        (heard,) = [each for each in lines if "heard hello [shop]" in each]
        (failed,) = [each for each in lines if "it failed" in each]
        for line in (heard, failed):
            assert f'"session":"{result.session.session_id}"' in line
            assert '"turn":1' in line
        assert '"call":"toolu' in failed
        assert "ValueError: hello [shop]" in failed
    finally:
        logger.removeHandler(again)
        again.close()
        logger.setLevel(logging.NOTSET)


@pytest.fixture
def logs():
    """The logger of Greenroom, as it was before once the test is over."""
    logger = logging.getLogger("greenroom")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    for each in set(logger.handlers) - set(handlers):
        logger.removeHandler(each)
        each.close()
    logger.setLevel(level)


def test_the_files_of_a_log_are_their_users_alone(tmp_path, monkeypatch, logs):
    monkeypatch.setattr(json_log, "MAX_BYTES", 200)
    before = os.umask(0o022)
    try:
        handler = configure_logging(tmp_path / "greenroom.log")
        for _ in range(5):
            logs.warning("it failed", stack_info=True)
        handler.close()
    finally:
        os.umask(before)
    files = list(tmp_path.iterdir())
    assert {each.name for each in files} > {"greenroom.log", "greenroom.log.1"}
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert "logs.warning" in json.loads(files[0].read_text())["stack"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_log_that_the_disk_refuses_is_told_in_one_line_and_harms_nothing(logs, capsys):
    handler = configure_logging("/dev/full")
    for _ in range(3):
        logs.warning("it failed")
    handler.close()
    handler.close()
    says = "greenroom: lines are missing from the log /dev/full: No space left on device\n"
    assert capsys.readouterr().err == says


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_log_that_the_disk_refuses_is_closed_where_standard_error_is_too(logs, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    handler = configure_logging("/dev/full")
    logs.warning("it failed")
    handler.close()
    assert handler._file.refusal == "No space left on device"


def test_an_unknown_level_leaves_the_log_as_it_was(tmp_path, logs):
    before = configure_logging(tmp_path / "greenroom.log")
    with pytest.raises(ValueError, match="LOUD"):
        configure_logging(tmp_path / "other.log", "LOUD")
    assert [each for each in logs.handlers if isinstance(each.formatter, JsonLog)] == [before]
    logs.warning("still here")
    before.close()
    assert "still here" in (tmp_path / "greenroom.log").read_text()


async def test_each_call_is_a_line_with_its_stages_and_its_outcome(caplog):
    caplog.set_level("INFO", "greenroom.spans")
    busy = Reply("", error=ModelOverloadedError("busy"))
    calls = [call("leak", text="a", settings={}), call("leak"), call("fail", text="b")]
    model = resilient(ScriptedProvider(busy, busy, calls, "done"))
    agent = Agent(model, tools=[leak, fail])
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(JsonLog())]) as runtime:
        await agent.run("Go.", runtime=runtime)
    lines = [json.loads(JsonLog().format(each)) for each in caplog.records]
    tools = [each for each in lines if each.get("span_kind") == "tool"]
    outcomes = {each.get("error_type", "ok"): each for each in tools}
    assert sorted(outcomes) == ["InvalidInputError", "ToolError", "ok"]
    assert all(each["call"].startswith("toolu") for each in tools)
    for how, each in outcomes.items():
        assert each["status"] == ("ok" if how == "ok" else "error")
        assert ("execution_ms" in each) is ("validation_ms" in each) is (how != "InvalidInputError")
    assert [each["attempts"] for each in lines if each.get("span_kind") == "model"] == [3, 1]


async def test_the_recorder_numbers_what_goes_and_comes_and_keeps_the_newest(tmp_path):
    agent = Agent(
        ScriptedProvider([call("leak", text="a", settings={})], "done"), tools=[leak], name="Ann"
    )
    store = FileStore(tmp_path)
    async with Recorder(keep=4) as recorder:
        async with AgentRuntime(store, instruments=[recorder]) as runtime:
            session = (await agent.run("Go.", runtime=runtime)).session
    folder = trio.Path(store.folder(session.session_id)) / "debugger"
    names = sorted(path.name for path in await folder.iterdir())
    assert names == [
        "000003_tool_call_leak.json",
        "000004_tool_result_leak.json",
        "000005_model_request.json",
        "000006_model_response.json",
    ]
    assert '"done"' in await (folder / names[-1]).read_text()

    await (folder / names[-1]).rename(folder / "1234567_model_response.json")
    async with Recorder(keep=2) as recorder:
        async with AgentRuntime(store, instruments=[recorder]) as runtime:
            agent = Agent(ScriptedProvider("done"), name="Ann")
            await agent.run("Go.", session=session, runtime=runtime)
    assert sorted(path.name for path in await folder.iterdir()) == [
        "1234568_model_request.json",
        "1234569_model_response.json",
    ]


def test_a_context_says_where_its_session_is():
    context = AgentContext(session_id="s-1", agent_type="a")
    assert context.session_folder == ""
