"""What a session has used and what it was granted: on record, over every store."""

import pytest

from greenroom.core import Message, Usage
from greenroom.core._internal import InvalidJSONError, Used
from greenroom.distributed.hosted_agent import read_tree_used
from greenroom.session import AgentSession

GIT = {"decision": "allow", "tool": ["Bash"], "command_prefix": ["git push"]}
EDIT = {"decision": "allow", "tool": ["Edit"], "path": ["src/**"]}


def reply(text="ok", tokens=10, cost=0.5):
    return Message(
        "assistant",
        Message.assistant(text).content,
        provider="scripted",
        usage=Usage(tokens, 1, cost=cost),
    )


@pytest.fixture
def session(store):
    return AgentSession.new("coder", store=store)


async def loaded(session):
    await session.save()
    return await AgentSession.load(session.session_id, store=session.store)


async def test_what_was_used_is_on_record(session):
    session.add_message(Message.user("go"))
    assert session.used == Used()
    session.add_message(reply())
    session.mark_tools_started(["t1", "t2"])
    assert session.used == Used(Usage(10, 1, cost=0.5), 1, 2)
    session.add_message(reply(tokens=5, cost=0.25))
    expected = Used(Usage(15, 2, cost=0.75), 2, 2)
    assert session.used == expected
    later = await loaded(session)
    assert later.used == expected
    later.add_message(reply())
    assert later.used == expected + Used(Usage(10, 1, cost=0.5), 1)


async def test_a_reply_that_no_model_has_written_costs_nothing(session):
    session.add_message(Message.assistant("written by the program"))
    assert session.used == Used()
    session.add_message(Message("assistant", provider="openai"))  # a server that tells no usage
    assert session.used == Used(model_calls=1)


async def test_what_is_rewound_stays_paid(session):
    session.add_message(Message.user("go"))
    session.add_message(reply())
    session.mark_tools_started(["t1"])
    await session.save()
    await session.rewind(to=0)
    assert session.used == (await loaded(session)).used == Used(Usage(10, 1, cost=0.5), 1, 1)


async def test_what_is_compacted_stays_paid_and_so_is_its_summary(session):
    session.add_message(Message.user("go"))
    session.add_message(reply())
    await session.compact("We went.", keep=0)
    assert session.used == (await loaded(session)).used == Used(Usage(10, 1, cost=0.5), 1)
    session.add_message(reply())
    await session.compact(Message("user", reply("On we go.").content, usage=Usage(7, 3)), keep=0)
    expected = Used(Usage(27, 5, cost=1.0), 3)
    assert session.used == (await loaded(session)).used == expected


async def test_calls_that_did_not_start_after_all_count_for_nothing(session):
    session.add_message(reply())
    session.mark_tools_started(["t1", "t2"])
    await session.save()
    session.mark_tools_started(["t3", "t4", "t5"])
    session.conversation.withdraw_tools_started()
    assert session.used.tool_calls == 2
    session.conversation.withdraw_tools_started()
    assert session.used.tool_calls == (await loaded(session)).used.tool_calls == 2


async def test_a_fork_begins_with_nothing_used(session):
    session.add_message(Message.user("go"))
    session.add_message(reply())
    session.mark_tools_started(["t1"])
    fork = await session.fork()
    assert fork.used == (await loaded(fork)).used == Used()
    fork.add_message(reply())
    assert fork.used == (await loaded(fork)).used == Used(Usage(10, 1, cost=0.5), 1)
    assert session.used.tool_calls == 1


async def test_a_tree_has_used_what_all_sessions_below_have_used(session):
    async def grow(parent, name, tokens):
        child = AgentSession.new_subagent("helper", parent.session_id, session_id=name)
        child.journal.bind(session.store)
        parent.description.add_child(name)
        child.add_message(reply(tokens=tokens))
        return child

    session.add_message(reply(tokens=1))
    child = await grow(session, "child", 10)
    session.description.add_child("never-said-anything")
    for each in (child, await grow(child, "grandchild", 100), await grow(child, "twin", 1000)):
        each.description.add_child(session.session_id)  # a circle ends nothing
        await each.save()
    assert session.used.model_calls == 1
    found = await read_tree_used(session)
    assert (found.usage.input_tokens, found.usage.cost, found.model_calls) == (1111, 2.0, 4)
    assert await read_tree_used(await loaded(session)) == found


async def test_grants_come_back_in_order(session):
    session.add_message(Message.user("go"))
    session.conversation.add_grants([GIT])
    session.conversation.add_grants([])
    assert session.statistics().unsaved == 2
    session.conversation.add_grants(iter([EDIT]))
    assert session.conversation.grants == (GIT, EDIT)
    assert session.conversation.grants is session.conversation.grants
    assert (await loaded(session)).conversation.grants == (GIT, EDIT)


async def test_grants_alone_are_worth_a_save(session):
    session.add_message(Message.user("go"))
    await session.save()
    session.conversation.add_grants([GIT])
    assert not session.is_saved
    assert (await loaded(session)).conversation.grants == (GIT,)


async def test_a_grant_that_is_no_json_is_refused(session):
    with pytest.raises(InvalidJSONError):
        session.conversation.add_grants([{"tool": object()}])
    assert session.conversation.grants == ()


async def test_revoked_grants_do_not_come_back_and_later_ones_do(session):
    session.conversation.revoke_grants()
    assert session.is_saved
    session.add_message(Message.user("go"))
    session.conversation.add_grants([GIT])
    session.conversation.revoke_grants()
    assert session.conversation.grants == (await loaded(session)).conversation.grants == ()
    session.conversation.add_grants([EDIT])
    assert (await loaded(session)).conversation.grants == (EDIT,)


@pytest.mark.parametrize(("to", "kept"), [(4, 2), (3, 1), (2, 0), (0, 0)])
async def test_a_rewind_to_where_a_grant_was_given_or_before_takes_it_back(session, to, kept):
    session.add_message(Message.user("push"))
    session.add_message(reply())
    session.conversation.add_grants([GIT])
    session.add_message(Message.user("edit"))
    session.conversation.add_grants([EDIT])
    session.add_message(reply())
    await session.save()
    await session.rewind(to=to)
    assert (
        session.conversation.grants
        == (await loaded(session)).conversation.grants
        == (GIT, EDIT)[:kept]
    )
    session.add_message(Message.user("again"))
    session.conversation.add_grants([EDIT])
    assert len(session.conversation.grants) == kept + 1


async def test_no_rewind_brings_back_what_was_revoked(session):
    session.conversation.add_grants([GIT])
    session.add_message(Message.user("push"))
    session.conversation.revoke_grants()
    session.add_message(reply())
    await session.rewind(to=1)
    assert session.conversation.grants == (await loaded(session)).conversation.grants == ()


async def test_a_fork_is_granted_nothing(session):
    session.add_message(Message.user("go"))
    session.conversation.add_grants([GIT])
    session.add_message(reply())
    fork = await session.fork()
    assert fork.conversation.grants == (await loaded(fork)).conversation.grants == ()
    assert session.conversation.grants == (GIT,)
