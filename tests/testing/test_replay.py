"""A session runs again without its model and its tools, and says where it would go another way."""

import pytest
import trio
from msgspec.structs import replace

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
)
from greenroom.llm import ModelSettings
from greenroom.observability import Trace, TraceFile, Tracer, read_trace
from greenroom.testing import (
    ScriptedApprover,
    ScriptedProvider,
    call,
    drift,
    export_test,
    replay,
    run_in_virtual_time,
)

ran = []


def fetch(page: str) -> str:
    """Fetch a page."""
    ran.append(page)
    return f"{page} of {len(ran)}"


def other(page: str) -> str:
    """Fetch a page, or not."""
    return page


def make(*steps, tools=(fetch,), instructions="Be brief.", model="script", **named):
    llm = ScriptedProvider(*steps, model=model)
    rules = [PermissionRule.allow_all()]
    return Agent(
        llm,
        name="agent",
        instructions=instructions,
        tools=list(tools),
        permissions=PermissionManager(rules=rules),
        **named,
    )


async def record(tmp_path, agent=None, approver=None):
    ran.clear()
    store = FileStore(tmp_path)
    steps = [
        [call("fetch", page="a"), call("fetch", page="b")],
        [call("fetch", page="c")],
        "one",
        "two",
    ]
    agent = agent or make(*steps)
    async with (
        TraceFile() as file,
        AgentRuntime(store, instruments=[Tracer(file, content="redacted")]) as runtime,
    ):
        session = AgentSession.new("agent", store=store)
        handle = runtime.spawn(session, agent)
        async with trio.open_nursery() as nursery:
            if approver:
                await nursery.start(approver.attend, handle)
            await handle.ask("Read a, b and c.")
            await handle.ask("And now?")
            await handle.shutdown()
    loaded = await AgentSession.load(session.session_id, store=store)
    return loaded, await read_trace(session.session_id, store=store)


def virtually(function, *args):
    async def main():
        await function(*args)

    run_in_virtual_time(main)


def test_a_replay_answers_from_the_record_and_runs_nothing(tmp_path):
    async def main():
        session, _ = await record(tmp_path)
        assert sorted(ran) == ["a", "b", "c"]
        async with AgentRuntime(InMemoryStore()) as runtime:
            runtime.resources.insert(replay(session))
            handle = runtime.spawn(AgentSession.new("agent"), make())
            assert (await handle.ask("Read a, b and c.")).text == "one"
            assert (await handle.ask("And now?")).text == "two"
            failed = await handle.ask("And then?")
        assert failed.status == "failed"
        assert sorted(ran) == ["a", "b", "c"]

    virtually(main)


def test_an_unchanged_agent_does_not_drift(tmp_path):
    async def main():
        session, trace = await record(tmp_path)
        assert await drift(session, trace, make()) is None
        assert len(ran) == 3

    virtually(main)


MUTANTS = {
    "a word of the instructions": (1, {"instructions": "Be quick."}),
    "the model": (1, {"model": "another"}),
    "a tool more": (1, {"tools": (fetch, other)}),
    "another tool": (1, {"tools": (other,)}),
    "the most tokens": (1, {"settings": ModelSettings(max_tokens=77)}),
    "the temperature": (1, {"settings": ModelSettings(temperature=0.5)}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_change_is_named_at_its_request(mutant, tmp_path):
    step, named = MUTANTS[mutant]

    async def main():
        session, trace = await record(tmp_path)
        found = await drift(session, trace, make(**named))
        assert found.step == step
        assert "\n-" in found.diff or mutant == "a tool more"
        assert "\n+" in found.diff

    virtually(main)


def test_questions_are_answered_as_they_were(tmp_path):
    def ask(**named):
        rules = [PermissionRule.ask_for_tool("fetch")]
        return Agent(
            ScriptedProvider([call("fetch", page="a")], [call("fetch", page="b")], "one", "two"),
            name="agent",
            tools=[fetch],
            permissions=PermissionManager(rules=rules),
        )

    async def main():
        session, trace = await record(tmp_path, ask(), ScriptedApprover("allow", "deny"))
        assert ran == ["a"]
        assert await drift(session, trace, ask()) is None

    virtually(main)


def test_without_content_there_is_nothing_to_compare(tmp_path):
    async def main():
        store = FileStore(tmp_path)
        async with TraceFile() as file, AgentRuntime(store, instruments=[Tracer(file)]) as runtime:
            session = (await make("one").run("Go.", runtime=runtime)).session
        trace = await read_trace(session.session_id, store=store)
        with pytest.raises(ConfigurationError, match="does not say what its model was asked"):
            await drift(session, trace, make())

    virtually(main)


def test_a_session_of_which_a_part_has_no_content_is_not_compared(tmp_path):
    async def main():
        session, trace = await record(tmp_path)
        last = max((each for each in trace.spans if each.kind == "model"), key=lambda it: it.start)
        silent = {k: v for k, v in last.attributes.items() if not k.endswith(".messages")}
        later = replace(last, attributes=silent)
        below = replace(later, session_id="s-below", span_id="b", parent_id=last.parent_id)
        own = tuple(each for each in trace.spans if each is not last)
        for spans, lacks in ((*own, later), session.session_id), ((*own, last, below), "s-below"):
            partial = Trace(spans, 0)
            with pytest.raises(ConfigurationError, match=f"{lacks} does not say what"):
                await drift(session, partial, make())
            with pytest.raises(ConfigurationError, match=f"{lacks} does not say what"):
                replay(session, partial)
            with pytest.raises(ConfigurationError, match=f"{lacks} does not say what"):
                await export_test(session, partial, "shop.bots:ann")

    virtually(main)
