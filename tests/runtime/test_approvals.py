"""Permission requests: answered by id, by the first who answers, and never by accident."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Answer,
    MailboxFullError,
    PermissionRequest,
    PermissionResponse,
    RuleDecision,
    StateChange,
    TextDelta,
)
from greenroom.core._internal import StateKind
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


def new(**options):
    return AgentSession.new("worker", **options)


def asking(answers, **options):
    """Make an agent that asks once for each input, and keeps the answers."""

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answers.append(await agent.request_permission("Bash", message.text, **options))

    return agent_fn


async def asked(runtime, answers, *texts, **options):
    spawn = {key: options.pop(key) for key in ("unattended",) if key in options}
    handle = runtime.spawn(new(), asking(answers, **options), **spawn)
    for text in texts or ("ls",):
        await handle.send_input(text)
    await wait_all_tasks_blocked()
    return handle


async def chunks_of(handle, *kinds):
    await handle.shutdown()
    return [chunk async for chunk in handle.subscribe("all") if isinstance(chunk, kinds)]


async def test_a_request_says_who_asks_for_what_and_where(runtime):
    answers = []
    handle = await asked(
        runtime,
        answers,
        details="ls -la",
        input={"command": "ls"},
        digest="d",
        tool_use_id="t1",
        reason="no rule",
    )
    (request,) = await handle.pending()
    assert request.request_id.startswith("p-")
    assert (request.tool_name, request.action, request.details) == ("Bash", "ls", "ls -la")
    assert (request.session_id, request.lineage) == (handle.session_id, ("worker",))
    assert (request.digest, request.tool_use_id, request.input) == ("d", "t1", {"command": "ls"})
    assert request.cwd
    assert handle.state.kind is StateKind.WAITING_FOR_PERMISSION
    assert (await handle.statistics()).pending == 1


async def test_the_first_answer_wins_and_everybody_sees_it(runtime):
    answers = []
    handle = await asked(runtime, answers)
    (request,) = await handle.pending()
    id_ = request.request_id
    kept = {"remember": "session", "prefix": True}
    assert await handle.respond_permission(id_, "allow", **kept, by="anna")
    assert await handle.pending() == ()
    assert not await handle.respond_permission(id_, "deny", by="bob")
    await wait_all_tasks_blocked()
    assert not await handle.respond_permission(id_, "deny", by="bob")
    assert answers == [Answer(RuleDecision.ALLOW, "session", by="anna", prefix=True)]
    (response,) = await chunks_of(handle, PermissionResponse)
    assert response == PermissionResponse(
        id_, "Bash", RuleDecision.ALLOW, by="anna", remember="session"
    )


async def test_two_answers_at_once_are_one_answer(runtime):
    answers, accepted = [], []
    handle = await asked(runtime, answers)
    (request,) = await handle.pending()

    async def answer(decision):
        if await handle.respond_permission(request.request_id, decision):
            accepted.append(decision)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, "allow")
        nursery.start_soon(answer, "deny")
    await wait_all_tasks_blocked()
    assert [answer.decision for answer in answers] == accepted


@pytest.mark.parametrize("id_", ["", "p-000000000000", "toolu_1", "*"])
async def test_an_unknown_id_decides_nothing(runtime, id_):
    answers = []
    handle = await asked(runtime, answers)
    assert not await handle.respond_permission(id_, "allow")
    await wait_all_tasks_blocked()
    assert answers == []


@pytest.mark.parametrize("decision", ["ask", "yes", ""])
async def test_an_answer_is_allow_or_deny(runtime, decision):
    handle = await asked(runtime, [])
    (request,) = await handle.pending()
    with pytest.raises(ValueError, match=f"'allow' or 'deny', not {decision!r}"):
        await handle.respond_permission(request.request_id, decision)


async def test_an_answer_to_one_request_can_t_decide_another(runtime):
    answers = []
    handle = await asked(runtime, answers, "first", "second")
    (first,) = await handle.pending()
    await handle.respond_permission(first.request_id, "deny", message="not this")
    await wait_all_tasks_blocked()
    (second,) = await handle.pending()
    assert second.request_id != first.request_id
    assert not await handle.respond_permission(first.request_id, "allow")
    await handle.respond_permission(second.request_id, "allow")
    await wait_all_tasks_blocked()
    assert [(a.decision, a.message) for a in answers] == [("deny", "not this"), ("allow", "")]


async def test_input_that_comes_while_a_prompt_is_open_is_neither_an_answer_nor_lost(runtime):
    answers = []
    handle = await asked(runtime, answers, "ls")
    await handle.send_input("yes, allow it")
    await wait_all_tasks_blocked()
    assert answers == []
    (request,) = await handle.pending()
    await handle.respond_permission(request.request_id, "deny")
    await wait_all_tasks_blocked()
    (request,) = await handle.pending()
    assert request.action == "yes, allow it"


async def test_an_unanswered_request_is_denied_at_its_time_out(runtime):
    answers = []
    handle = await asked(runtime, answers, timeout=30)
    before = trio.current_time()
    (response,) = [c async for c in handle.stream() if isinstance(c, PermissionResponse)]
    assert trio.current_time() == before + 30
    assert (response.decision, response.by) == (RuleDecision.DENY, "time-out")
    assert "30 seconds" in answers[0].message


async def test_the_runtime_s_limit_is_the_default_time_out():
    answers = []
    limits = RuntimeLimits(permission_timeout=5)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        handle = await asked(runtime, answers)
        await trio.sleep(5)
        await wait_all_tasks_blocked()
        assert answers[0].by == "time-out"
        assert handle.state.kind is StateKind.IDLE


async def test_a_question_that_may_wait_for_ever_is_logged_once(runtime, caplog):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.request_permission(
                    "Bash", "ls", timeout=5 if message.text == "soon" else None
                )

    async def said(*words, **options):
        caplog.clear()
        handle = runtime.spawn(new(), agent_fn, **options)
        for word in words:
            await handle.send_input(word)
            await wait_all_tasks_blocked()
            for request in await handle.pending():
                await handle.respond_permission(request.request_id, "deny")
            await wait_all_tasks_blocked()
        return [r.getMessage() for r in caplog.records if "answers=True" in r.getMessage()]

    assert await said("soon") == []
    assert await said("go", unattended="deny") == []
    (once,) = await said("go", "again", name="planner")
    assert once.startswith("planner ")
    assert "waits for permission" in once


@pytest.mark.parametrize("field", ["session_id", "lineage", "cwd", "warnings"])
async def test_an_agent_can_not_pass_what_the_runtime_says_of_a_request(runtime, field):
    handle = await asked(runtime, [], unattended="deny", **{field: ()})
    assert handle.state.kind is StateKind.FAILED
    assert field in handle.state.detail


async def test_it_waits_while_no_reader_that_answers_has_ever_come(runtime):
    answers = []
    handle = await asked(runtime, answers)
    async with handle.subscribe():
        await trio.sleep(1000)
    assert answers == []
    assert len(await handle.pending()) == 1


async def test_it_is_denied_when_the_last_one_who_answers_leaves(runtime):
    answers = []
    handle = await asked(runtime, answers)
    async with handle.subscribe(answers=True):
        async with handle.subscribe(answers=True):
            pass
        await wait_all_tasks_blocked()
        assert answers == []
    await wait_all_tasks_blocked()
    assert (answers[0].decision, answers[0].by) == (RuleDecision.DENY, "unattended")
    # Nor does a later one wait for a reader that has left.
    await handle.send_input("again")
    await wait_all_tasks_blocked()
    assert [answer.by for answer in answers] == ["unattended"] * 2


async def test_an_answer_given_just_before_leaving_counts(runtime):
    answers = []
    handle = await asked(runtime, answers)
    async with handle.subscribe(answers=True):
        (request,) = await handle.pending()
        await handle.respond_permission(request.request_id, "allow")
    await wait_all_tasks_blocked()
    assert answers[0].allowed


async def test_an_unattended_agent_denies_at_once_unless_a_reader_answers(runtime):
    answers = []
    handle = await asked(runtime, answers, unattended="deny")
    assert answers[0].by == "unattended"
    async with handle.subscribe(answers=True):
        await handle.send_input("again")
        await wait_all_tasks_blocked()
        assert len(await handle.pending()) == 1


async def test_a_shutdown_denies_what_is_open_and_what_is_asked_later(runtime):
    answers = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(2):
                    answers.append(await agent.request_permission("Bash", "ls"))  # noqa: PERF401

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    before = trio.current_time()
    await handle.shutdown()
    assert [answer.by for answer in answers] == ["shutdown"] * 2
    assert trio.current_time() == before


async def test_an_interrupt_withdraws_the_request(runtime):
    answers = []
    handle = await asked(runtime, answers)
    await handle.interrupt()
    assert (answers, await handle.pending()) == ([], ())
    (response,) = await chunks_of(handle, PermissionResponse)
    assert (response.cancelled, response.decision, response.by) == (
        True,
        RuleDecision.DENY,
        "withdrawn",
    )


async def test_requests_side_by_side_and_the_state_in_between(runtime):
    answers = {}

    async def agent_fn(agent):
        async def ask(name):
            answers[name] = await agent.request_permission("Bash", name)

        async for message in agent.inputs():
            async with agent.turn(message):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, "a")
                    nursery.start_soon(ask, "b")
                await agent.send(TextDelta("both"))
                await agent.receive()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    by_name = {request.action: request.request_id for request in await handle.pending()}
    assert set(by_name) == {"a", "b"}
    await handle.respond_permission(by_name["b"], "allow")
    await wait_all_tasks_blocked()
    assert handle.state.kind is StateKind.WAITING_FOR_PERMISSION
    await handle.respond_permission(by_name["a"], "deny")
    await wait_all_tasks_blocked()
    assert handle.state.kind is StateKind.PROCESSING
    assert (answers["a"].allowed, answers["b"].allowed) == (False, True)


async def test_the_state_goes_back_when_a_request_is_given_up(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.set_state(AgentState.executing_tool("Bash"))
                with trio.move_on_after(1):
                    await agent.request_permission("Bash", "ls")
                await agent.receive()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await trio.sleep(2)
    assert handle.state == AgentState.executing_tool("Bash")


async def test_a_state_set_meanwhile_stays(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message), trio.open_nursery() as nursery:
                nursery.start_soon(agent.request_permission, "Bash", "ls")
                await wait_all_tasks_blocked()
                agent.set_state(AgentState.executing_tool("Read"))

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    (request,) = await handle.pending()
    await handle.respond_permission(request.request_id, "allow")
    changes = [str(chunk.state) for chunk in await chunks_of(handle, StateChange)]
    assert changes == [
        "processing",
        "waiting for permission",
        "executing tool: Read",
        "idle",
        "done",
    ]


async def test_too_many_open_requests_are_refused():
    refused = trio.Event()

    async def agent_fn(agent):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(agent.request_permission, "Bash", "ls")
            await wait_all_tasks_blocked()
            with pytest.raises(MailboxFullError):
                await agent.request_permission("Bash", "ls")
            refused.set()

    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(pending=2)) as runtime:
        runtime.spawn(new(), agent_fn)
        await refused.wait()


def family(answers):
    async def child(agent):
        answers.append(await agent.request_permission("Bash", "ls"))

    async def middle(agent):
        await agent.spawn(new(session_id="leaf"), child, name="leaf").wait()

    async def top(agent):
        await agent.spawn(new(session_id="middle"), middle, name="middle").wait()

    return top


async def test_a_subagent_s_request_is_answered_on_the_handle_of_the_root(runtime):
    answers = []
    handle = runtime.spawn(new(), family(answers), name="top")
    async with handle.subscribe(answers=True):
        await wait_all_tasks_blocked()
        (request,) = await handle.pending()
        assert (request.lineage, request.session_id) == (("top", "middle", "leaf"), "leaf")
        assert (await handle.statistics()).pending == 0
        assert await handle.respond_permission(request.request_id, "allow")
        assert not await handle.respond_permission(request.request_id, "deny")
    await handle.wait(check=True)
    assert answers[0].allowed


async def test_a_subagent_s_request_is_denied_when_the_root_s_answerer_leaves(runtime):
    answers = []
    handle = runtime.spawn(new(), family(answers))
    async with handle.subscribe(answers=True):
        await wait_all_tasks_blocked()
    await handle.wait(check=True)
    assert answers[0].by == "unattended"


async def test_a_shutdown_of_the_root_denies_the_requests_below(runtime):
    answers = []
    handle = runtime.spawn(new(), family(answers))
    await wait_all_tasks_blocked()
    await handle.shutdown()
    assert answers[0].by == "shutdown"


async def test_a_subagent_of_an_unattended_root_is_denied_at_once(runtime):
    answers = []
    await runtime.spawn(new(), family(answers), unattended="deny").wait(check=True)
    assert answers[0].by == "unattended"


async def test_a_neighbour_can_t_answer(runtime):
    answers = []
    handle = await asked(runtime, answers)
    neighbour = await asked(runtime, [])
    (request,) = await handle.pending()
    assert not await neighbour.respond_permission(request.request_id, "allow")


async def test_the_request_is_told_before_the_state_and_the_answer_ends_it(runtime):
    handle = await asked(runtime, [])
    (request,) = await handle.pending()
    await handle.respond_permission(request.request_id, "allow", input={"command": "pwd"})
    seen = await chunks_of(handle, PermissionRequest, PermissionResponse, StateChange)
    assert [type(chunk) for chunk in seen[1:5]] == [
        PermissionRequest,
        StateChange,
        PermissionResponse,
        StateChange,
    ]
