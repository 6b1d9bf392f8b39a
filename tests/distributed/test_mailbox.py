"""What is sent to an agent on a host: stored first, taken once, in order, with its result."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import MailboxFullError, TextBlock, TurnError
from greenroom.distributed import AgentSpec, Host, mailbox
from greenroom.distributed.hosted_agent import HostedAgent
from greenroom.runtime import AgentNotRunningError
from tests.distributed.kinds import ECHO, ENDING, FAILING, HELD, asked


@pytest.fixture
async def agent(cluster, nursery):
    await nursery.start(Host(cluster, [ECHO, FAILING, ENDING]).run)
    return await cluster.spawn(AgentSpec("echo", {"prefix": "> "}))


async def test_inputs_join_once_in_the_order_of_their_receipts(agent):
    receipts = [await agent.send_input(f"{n}", id=f"i{n}") for n in range(5)]
    again = [await agent.send_input(f"{n}", id=f"i{n}") for n in range(5)]
    assert receipts == again
    assert [(await agent.answer(each)).text for each in receipts] == [f"> {n}" for n in range(5)]
    assert (await agent.send_input("3", id="i3")).input_id == "i3"
    assert (await agent.ask("last")).text == "> last"
    asked = [each.text for each in await agent.history() if each.role == "user"]
    assert asked == ["0", "1", "2", "3", "4", "last"]


async def test_an_id_names_one_input_only(agent):
    await agent.send_input("one", id="i1")
    for other in (
        {"content": "two"},
        {"content": "one", "sender": "planner"},
        {"content": "one", "metadata": {"n": 1}},
    ):
        with pytest.raises(ValueError, match="other content"):
            await agent.send_input(**other, id="i1")
    receipt = await agent.send_input([TextBlock("one")], id="i1")  # the same, in other words
    assert (await agent.answer(receipt)).text == "> one"


async def test_any_program_reads_an_answer_at_any_time(agent, make_cluster):
    receipt = await agent.send_input("hello")
    async with make_cluster() as other:
        found = await other.get(agent.session_id)
        for _ in range(2):
            assert (await found.answer(receipt.input_id)).text == "> hello"
        with pytest.raises(TurnError, match="never sent"):
            await found.answer("another")


async def test_who_waits_for_an_answer_may_look_once_or_for_a_while(cluster, agent):
    query = "UPDATE agents SET host = NULL, capabilities = %s"
    await cluster.database.run(lambda each: each.execute(query, [["none has"]]))
    receipt = await agent.send_input("hello")
    for seconds in (0.0, 0.01):
        with pytest.raises(trio.TooSlowError):
            await agent.answer(receipt, seconds)
    await cluster.database.run(lambda each: each.execute(query, [[]]))
    with trio.fail_after(60):
        assert (await agent.answer(receipt)).text == "> hello"
    assert (await agent.answer(receipt, 0.0)).text == "> hello"


async def test_a_turn_that_fails_is_answered_with_its_error(cluster, agent):
    failing = await cluster.spawn(AgentSpec("failing"))
    result = await failing.ask("work")
    assert (result.status, result.kind) == ("failed", "ToolError")
    assert "out of paper" in result.error
    assert (await failing.ask("work")).status == "failed"


async def test_an_agent_that_ends_answers_what_it_never_took(cluster, agent, monkeypatch):
    are_sent = trio.Event()
    monkeypatch.setitem(HELD, "bye", are_sent)
    ending = await cluster.spawn(AgentSpec("ending"))
    first, second = [await ending.send_input(each) for each in ("bye", "wait!")]
    are_sent.set()
    with trio.fail_after(60):
        assert (await ending.wait()).status == "completed"
    assert (await ending.answer(first)).text == "bye"
    assert (await ending.answer(second)).kind == "AgentNotRunningError"
    with pytest.raises(AgentNotRunningError) as caught:
        await ending.send_input("more")
    assert caught.value.outcome.status == "completed"


async def test_a_result_is_on_record_though_the_agent_ends_right_after_it(
    cluster, agent, monkeypatch
):
    finish = HostedAgent._finish

    async def finish_late(hosted, *args):
        if hosted._handle is not None:
            await hosted._handle.wait()  # as if the machine were busy
            await wait_all_tasks_blocked()
        await finish(hosted, *args)

    monkeypatch.setattr(HostedAgent, "_finish", finish_late)
    ending = await cluster.spawn(AgentSpec("ending"))
    with trio.fail_after(60):
        assert (await ending.ask("bye")).text == "bye"


async def test_an_input_that_no_host_can_read_is_set_aside_and_leaves_the_others(
    cluster, agent, caplog
):
    odd = await cluster.spawn(AgentSpec("echo"))
    query = """INSERT INTO inputs (session_id, input_id, digest, body)
        VALUES (%s, 'i1', '', '{"content": [{"type": "newer"}]}')"""
    await cluster.database.run(lambda each: each.execute(query, [odd.session_id]))
    receipt = await odd.send_input("and this?")
    with trio.fail_after(60):
        assert (await odd.answer("i1")).status == "failed"
        assert (await odd.answer(receipt)).text == "and this?"
    assert await cluster.set_aside() == ((odd.session_id, "i1"),)
    assert caplog.text.count("could not go on") == 1  # though it was tried by three
    assert (await agent.ask("still there?")).text == "> still there?"
    assert [each.state for each in await cluster.hosts()] == ["live"]
    assert await asked(odd) == ["and this?"]


async def test_inputs_are_kept_for_a_week_after_their_end_and_taken_once_ever_after(cluster, agent):
    assert (await agent.ask("one", id="i1")).text == "> one"
    assert (await agent.ask("two", id="i2")).text == "> two"
    query = "UPDATE inputs SET changed = changed - interval '7 days' WHERE input_id = 'i1'"
    for is_there in (True, False):
        await cluster.database.run(mailbox.forget_inputs)
        assert await agent._links.is_answered(agent.session_id, "i2")
        rows = await cluster.database.run(
            lambda each: each.execute("SELECT input_id FROM inputs ORDER BY number").fetchall()
        )
        assert rows == ([("i1",), ("i2",)] if is_there else [("i2",)])
        await cluster.database.run(lambda each: each.execute(query))
    with trio.fail_after(60):
        assert (await agent.ask("one", id="i1")).text == "> one"
    assert await asked(agent) == ["one", "two"]


async def test_a_turn_that_failed_says_so_also_when_only_the_conversation_knows(cluster, agent):
    failing = await cluster.spawn(AgentSpec("failing"))
    with trio.fail_after(60):
        assert (await failing.ask("go", id="i1")).error == "out of paper"
        await cluster.database.run(lambda each: each.execute("DELETE FROM inputs"))
        again = await failing.ask("go", id="i1")
    assert again.status == "failed"
    assert again.error.startswith("the turn failed; the conversation does not say why")


async def test_an_input_that_is_too_large_is_refused(agent, monkeypatch):
    monkeypatch.setattr(mailbox, "LONGEST", 1 << 20)
    with pytest.raises(ValueError, match="at most 1 MB"):
        await agent.send_input("x" * (1 << 20))


async def test_a_mailbox_has_a_bound(cluster, agent, monkeypatch):
    monkeypatch.setattr(mailbox, "MOST_WAITING", 0)
    with pytest.raises(MailboxFullError):
        await agent.send_input("one too many")
