"""Requests of agents elsewhere, requests for fields, and replies of agents elsewhere."""

import pytest
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Error,
    Message,
    PermissionRequest,
    StopReason,
    ToolError,
    TurnStatus,
    Usage,
)
from greenroom.core._internal import PermissionEffects
from greenroom.runtime import TurnResult
from greenroom.runtime._internal import InvalidAnswerError
from greenroom.session import AgentSession

FAR = PermissionRequest(
    "p-far",
    "Bash",
    "Run a command",
    details="rm -r build",
    digest="d",
    tool_use_id="t1",
    session_id="s-far",
    lineage=("coder", "tidy up"),
    cwd="/far/project",
    effects=PermissionEffects(writes=("/far/etc",)),
    warnings=("it is odd",),
)
FIELDS = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}


async def ask(runtime, answers, *args, **request):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                answers.append(await agent.request_permission(*args, **request))

    handle = runtime.spawn(AgentSession.new("forwarder"), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    return handle


async def test_a_request_that_is_passed_on_keeps_what_it_is_about(runtime):
    answers = []
    handle = await ask(runtime, answers, of=FAR, host="build-7")
    (request,) = await handle.pending()
    assert request.request_id not in ("", FAR.request_id)
    assert request.session_id == handle.session_id
    assert (request.host, request.cwd, request.lineage) == ("build-7", FAR.cwd, FAR.lineage)
    assert (request.effects, request.warnings) == (FAR.effects, FAR.warnings)
    assert (request.details, request.digest) == (FAR.details, FAR.digest)
    assert await handle.respond_permission(request.request_id, "allow")
    await wait_all_tasks_blocked()
    assert answers[0].allowed


async def test_what_misleads_is_searched_for_here_as_well(runtime):
    odd = PermissionRequest("p", "Bash", "Run \u202etxt", warnings=("it is odd",))
    (request,) = await (await ask(runtime, [], of=odd)).pending()
    assert request.warnings[0] == "it is odd"
    assert len(request.warnings) == 2


@pytest.mark.parametrize("field", ["session_id", "lineage", "cwd", "warnings"])
async def test_the_facts_of_a_request_that_is_passed_on_can_not_be_changed(runtime, field):
    handle = await ask(runtime, [], of=FAR, **{field: ()})
    assert field in handle.state.detail


async def test_a_request_is_about_something(runtime):
    assert "of=" in (await ask(runtime, [])).state.detail


async def test_an_allow_has_to_fit_the_fields_and_the_question_stays_open_until_it_does(runtime):
    answers = []
    handle = await ask(runtime, answers, "Form", "Tell your age", fields=FIELDS)
    (request,) = await handle.pending()
    assert request.fields == FIELDS
    for given in (None, {}, {"age": "old"}, {"age": 1, "more": 2}):
        with pytest.raises(InvalidAnswerError, match="Form") as caught:
            await handle.respond_permission(request.request_id, "allow", input=given)
        assert isinstance(caught.value, ValueError)
    assert await handle.pending() == (request,)
    assert await handle.respond_permission(request.request_id, "allow", input={"age": 7})
    assert not await handle.respond_permission(request.request_id, "allow", input={"age": 7})
    await wait_all_tasks_blocked()
    assert answers[0].input == {"age": 7}


async def test_a_no_needs_no_fields(runtime):
    answers = []
    handle = await ask(runtime, answers, "Form", "Tell your age", fields=FIELDS)
    (request,) = await handle.pending()
    assert await handle.respond_permission(request.request_id, "deny")
    await wait_all_tasks_blocked()
    assert not answers[0].allowed


async def test_fields_that_are_no_schema_are_the_asking_agent_s_error(runtime):
    handle = await ask(runtime, [], "Form", "Tell", fields={"type": "no such type"})
    assert await handle.pending() == ()
    await handle.shutdown()
    kinds = [each.kind async for each in handle.subscribe("all") if isinstance(each, Error)]
    assert kinds == [ToolError.__name__]


async def replies(runtime, *, adds):
    result = TurnResult(
        TurnStatus.COMPLETED, "far away", StopReason.MAX_TOKENS, Usage(input_tokens=7), value=3
    )

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                turn.set_reply(result)
                if adds:
                    agent.session.add_message(Message.assistant("here"))

    return await runtime.spawn(AgentSession.new("forwarder"), agent_fn).ask("go")


async def test_the_reply_of_another_agent_is_the_turn_s(runtime):
    result = await replies(runtime, adds=False)
    assert (result.text, result.stop_reason) == ("far away", StopReason.MAX_TOKENS)
    assert result.usage == Usage(input_tokens=7)
    assert result.value != 3


async def test_a_reply_of_its_own_counts_before_it(runtime):
    result = await replies(runtime, adds=True)
    assert (result.text, result.usage) == ("here", Usage())
