"""Sessions of an editor: turns, what is shown of them, questions, options, stored conversations."""

import base64
import struct
import zlib
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.agents import coder
from greenroom.core import ImageBlock, Message, Price, TextDelta, ThinkingDelta, Usage
from greenroom.llm import ModelOverloadedError, OfflineProvider
from greenroom.runtime import RuntimeLimits
from greenroom.testing import Reply, ScriptedProvider, call
from tests.interop.acp.editor import Opener, Refused, open_editor


def opener(*replies, tools=None):
    """Open sessions of the coding agent, whose model has a script or is the offline one."""

    async def agent(internals, tools, permissions):
        llm = ScriptedProvider(*replies) if replies else OfflineProvider()
        await coder(internals, llm, tools, permissions)

    return Opener(agent, tools=tools)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "README.md").write_text("A project of ours.\n")
    return tmp_path


async def begin(editor, folder, **more):
    """Open a session; return its id."""
    opened = await editor.ask("session/new", cwd=str(folder), mcpServers=[], **more)
    return opened["sessionId"]


async def say(editor, session, text):
    blocks = [{"type": "text", "text": text}]
    answer = await editor.ask("session/prompt", sessionId=session, prompt=blocks)
    return answer["stopReason"]


def choose(option):
    async def answer(params):
        return {"outcome": {"outcome": "selected", "optionId": option}}

    return answer


async def test_a_turn_shows_its_text_its_calls_and_its_end(project):
    async with open_editor(opener()) as editor:
        session = await begin(editor, project)
        assert await say(editor, session, "read README.md") == "end_turn"
        assert "A project of ours." in editor.text()
        [started] = editor.shown("tool_call")
        assert started["kind"] == "read"
        assert started["locations"] == [{"path": str(project / "README.md")}]
        [ended] = editor.shown("tool_call_update")
        assert (ended["toolCallId"], ended["status"]) == (started["toolCallId"], "completed")
        assert editor.shown("session_info_update") == [
            {"sessionUpdate": "session_info_update", "title": "A title"}
        ]
        [commands] = editor.shown("available_commands_update")
        assert [each["name"] for each in commands["availableCommands"]] == ["greet"]
        assert editor.text("agent_thought_chunk") == "a warning\n"


@pytest.mark.parametrize(
    ("option", "is_written"), [("once", True), ("session", True), ("no", False), ("never", False)]
)
async def test_a_question_has_its_change_and_its_answer_counts(project, option, is_written):
    async with open_editor(opener()) as editor:
        editor.answers["session/request_permission"] = choose(option)
        session = await begin(editor, project)
        assert await say(editor, session, "write a.txt: hello") == "end_turn"
        [(_, question)] = editor.asked
        path = str(project / "a.txt")
        assert question["toolCall"]["content"][0] == {
            "type": "diff",
            "path": path,
            "oldText": None,
            "newText": "hello",
        }
        assert {each["optionId"]: each["kind"] for each in question["options"]} == {
            "once": "allow_once",
            "session": "allow_always",
            "project": "allow_always",
            "always": "allow_always",
            "no": "reject_once",
            "never": "reject_always",
        }
        [pending] = editor.shown("tool_call")
        assert (pending["status"], pending["toolCallId"]) == (
            "pending",
            question["toolCall"]["toolCallId"],
        )
        last = editor.shown("tool_call_update")[-1]
        assert last["status"] == ("completed" if is_written else "failed")
        assert (project / "a.txt").exists() is is_written


@pytest.mark.parametrize(
    "outcome", [{"outcome": "cancelled"}, {"outcome": "selected", "optionId": "x"}]
)
async def test_no_usable_answer_is_a_denial(project, outcome):
    async def answer(params):
        return {"outcome": outcome}

    async with open_editor(opener()) as editor:
        editor.answers["session/request_permission"] = answer
        await say(editor, await begin(editor, project), "write a.txt: hello")
        assert editor.shown("tool_call_update")[-1]["status"] == "failed"
        assert not (project / "a.txt").exists()


async def test_a_subagents_question_is_asked_as_well(project):
    async with open_editor(opener()) as editor:
        editor.answers["session/request_permission"] = choose("once")
        await say(editor, await begin(editor, project), "ask a subagent to write a.txt: x")
        assert (project / "a.txt").exists()
        assert len(editor.asked) == 1
        ids = [each["toolCallId"] for each in editor.shown("tool_call")]
        assert len(set(ids)) == 2


async def test_a_cancel_ends_the_turn_and_takes_its_question_back(project):
    async with open_editor(opener()) as editor:
        asked = trio.Event()

        async def never(params):
            asked.set()
            await trio.sleep_forever()

        editor.answers["session/request_permission"] = never
        session = await begin(editor, project)
        blocks = [{"type": "text", "text": "write a.txt: hello"}]
        prompt = await editor.begin("session/prompt", sessionId=session, prompt=blocks)
        await asked.wait()
        await editor.tell("session/cancel", sessionId=session)
        assert await editor.wait(prompt) == {"stopReason": "cancelled"}
        await editor.until(lambda it: it.notes)
        assert [method for method, _ in editor.notes] == ["$/cancel_request"]
        assert editor.shown("tool_call_update")[-1]["status"] == "failed"
        editor.answers["session/request_permission"] = choose("once")
        assert await say(editor, session, "write a.txt: hello") == "end_turn"


async def test_a_cancel_right_behind_a_prompt_and_what_waits_behind_it(project):
    async with open_editor(opener()) as editor:
        session = await begin(editor, project)
        blocks = [{"type": "text", "text": "read README.md"}]
        prompts = [
            await editor.begin("session/prompt", sessionId=session, prompt=blocks) for _ in range(3)
        ]
        await editor.tell("session/cancel", sessionId=session)
        ends = [(await editor.wait(each))["stopReason"] for each in prompts]
        assert ends == ["cancelled"] * 3
        assert await say(editor, session, "read README.md") == "end_turn"


async def test_a_request_that_is_taken_back_is_answered_as_such(project):
    async with open_editor(opener()) as editor:
        asked = trio.Event()

        async def never(params):
            asked.set()
            await trio.sleep_forever()

        editor.answers["session/request_permission"] = never
        session = await begin(editor, project)
        blocks = [{"type": "text", "text": "write a.txt: hello"}]
        prompt = await editor.begin("session/prompt", sessionId=session, prompt=blocks)
        await asked.wait()
        await editor.tell("$/cancel_request", requestId=prompt)
        with pytest.raises(Refused) as refused:
            await editor.wait(prompt)
        assert refused.value.code == -32800
        assert await say(editor, session, "read README.md") == "end_turn"


async def test_sessions_stand_side_by_side(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "README.md").write_text("Another one.\n")
    async with open_editor(opener()) as editor:
        first, second = await begin(editor, project), await begin(editor, other)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, editor, first, "read README.md")
            nursery.start_soon(say, editor, second, "read README.md")
        assert "A project of ours." in editor.text(session=first)
        assert "Another one." in editor.text(session=second)
        assert "Another one." not in editor.text(session=first)


async def test_a_mode_and_a_model_are_chosen(project):
    async with open_editor(opener()) as editor:
        opened = await editor.ask("session/new", cwd=str(project), mcpServers=[])
        session = opened["sessionId"]
        assert opened["modes"]["currentModeId"] == "default"
        assert [each["id"] for each in opened["configOptions"]] == ["mode", "model"]
        await editor.ask("session/set_mode", sessionId=session, modeId="plan")
        [mode] = editor.shown("current_mode_update")
        assert mode["currentModeId"] == "plan"
        chosen = await editor.ask(
            "session/set_config_option", sessionId=session, configId="model", value="two"
        )
        assert [each["currentValue"] for each in chosen["configOptions"]] == ["plan", "two"]
        with pytest.raises(Refused) as refused:
            await editor.ask("session/set_mode", sessionId=session, modeId="bypass")
        assert refused.value.code == -32602


async def test_a_list_of_things_to_do_is_a_plan(project):
    todos = [{"content": "look", "status": "completed"}, {"content": "act", "status": "pending"}]
    async with open_editor(opener(call("Todo", todos=todos), "done")) as editor:
        await say(editor, await begin(editor, project), "go")
        [plan] = editor.shown("plan")
        assert [(each["content"], each["status"]) for each in plan["entries"]] == [
            ("look", "completed"),
            ("act", "pending"),
        ]


async def test_a_large_input_is_shown_by_its_change_alone(project):
    large = call("Write", file_path="a.txt", content="line\n" * 60_000)
    small = call("Write", file_path="b.txt", content="line\n")
    async with open_editor(opener(large, small, "done")) as editor:
        editor.answers["session/request_permission"] = choose("once")
        await say(editor, await begin(editor, project), "go")
        assert ["rawInput" in each for each in editor.shown("tool_call")] == [False, True]
        assert (project / "a.txt").stat().st_size == 300_000


async def test_a_stored_conversation_is_shown_again_and_goes_on(project):
    sessions = opener()
    async with open_editor(sessions) as editor:
        editor.answers["session/request_permission"] = choose("once")
        session = await begin(editor, project)
        await say(editor, session, "write a.txt: hello")
        [listed] = (await editor.ask("session/list"))["sessions"]
        assert (listed["sessionId"], listed["title"]) == (session, "A title")
        assert (await editor.ask("session/list", cwd="/nowhere"))["sessions"] == []
    async with open_editor(sessions) as editor:
        where = {"sessionId": session, "cwd": str(project), "mcpServers": []}
        await editor.ask("session/load", **where)
        assert editor.text("user_message_chunk") == "write a.txt: hello"
        [written] = editor.shown("tool_call")
        assert written["content"][0]["newText"] == "hello"
        assert editor.shown("tool_call_update")[0]["status"] == "completed"
        assert await say(editor, session, "read a.txt") == "end_turn"
        count = len(editor.updates)
        await editor.ask("session/resume", **where)  # it is open already, and opened anew
        shown = [update["sessionUpdate"] for _, update in editor.updates[count:]]
        assert "user_message_chunk" not in shown
        assert await say(editor, session, "read a.txt") == "end_turn"
        await editor.ask("session/close", sessionId=session)
        with pytest.raises(Refused, match="not open"):
            await say(editor, session, "hello")
        await editor.ask("session/delete", sessionId=session)
        await editor.ask("session/delete", sessionId=session)
        with pytest.raises(Refused) as refused:
            await editor.ask("session/load", **where)
        assert refused.value.code == -32002


async def test_a_long_list_has_pages(project):
    sessions = opener()
    async with open_editor(sessions) as editor:
        made = []
        for _ in range(5):
            made.append(await begin(editor, project))
            await say(editor, made[-1], "hello")
        found, cursor = [], {}
        while cursor is not None:
            page = await editor.ask("session/list", **cursor)
            found += [each["sessionId"] for each in page["sessions"]]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        assert sorted(found) == sorted(made)
        with pytest.raises(Refused) as refused:
            await editor.ask("session/list", cursor="nonsense")
        assert refused.value.code == -32602


async def test_pictures_files_and_links_reach_the_model(project):
    seen = []
    sessions = opener("fine")

    async with open_editor(sessions) as editor:
        session = await begin(editor, project)
        blocks = [
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
            {"type": "resource_link", "uri": "file:///w/a%20b.py", "name": "a b.py"},
            {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "x = 1"}},
        ]
        await editor.ask("session/prompt", sessionId=session, prompt=blocks)
        history = await sessions.handles[session].history()
        seen = history[0].content
    assert isinstance(seen[1], ImageBlock)
    texts = [seen[0].text, seen[2].text, seen[3].text]
    assert texts == ["look", "[a b.py](/w/a b.py)", '<file path="/w/c.py">\nx = 1\n</file>']


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"".join(
    [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")),
        chunk(b"IEND", b""),
    ]
)


async def test_a_picture_of_a_tool_is_shown_and_tokens_are_counted(project):
    (project / "a.png").write_bytes(PNG)
    price = Price(input=1.0, output=1.0)
    reply = Reply("fine", usage=Usage(1_000, 10))

    async def agent(internals, tools, permissions):
        read = call("Read", file_path="a.png")
        await coder(internals, ScriptedProvider(read, reply, price=price), tools, permissions)

    async with open_editor(Opener(agent)) as editor:
        await say(editor, await begin(editor, project), "go")
        [ended] = editor.shown("tool_call_update")
        [picture] = ended["content"]
        assert base64.b64decode(picture["content"]["data"]) == PNG
        used = editor.shown("usage_update")[-1]
        assert (used["used"], used["size"]) == (1_010, 200_000)
        assert used["cost"]["currency"] == "USD"


async def test_a_question_with_answers_offers_them(project):
    ask = call("AskPerson", question="Which?", options=["red", "blue"])
    async with open_editor(opener(ask, "done")) as editor:
        editor.answers["session/request_permission"] = choose("answer-2")
        session = await begin(editor, project)
        await say(editor, session, "go")
        [(_, question)] = editor.asked
        assert [each["name"] for each in question["options"]] == ["red", "blue", "None of these"]
        end = editor.shown("tool_call_update")[-1]
        assert "blue" in end["content"][0]["content"]["text"]


@pytest.mark.parametrize("can_ask", [True, False])
async def test_a_question_in_words_needs_a_form(project, can_ask):
    async def fill(params):
        assert params["message"] == "Which?"
        return {"action": "accept", "content": {"answer": "green"}}

    abilities = {"elicitation": {"form": {}}} if can_ask else {}
    async with open_editor(opener(call("AskPerson", question="Which?"), "done"), **abilities) as it:
        it.answers["elicitation/create"] = fill
        session = await begin(it, project)
        await say(it, session, "go")
        end = it.shown("tool_call_update")[-1]
        assert end["status"] == ("completed" if can_ask else "failed")
        expected = "green" if can_ask else "no field for words"
        assert expected in end["content"][0]["content"]["text"]


async def test_a_fault_of_the_model_is_the_error_of_the_prompt(project):
    def fail(request):
        raise ModelOverloadedError("no model today", hint="wait for it")

    async with open_editor(opener(fail, "here it is")) as editor:
        session = await begin(editor, project)
        with pytest.raises(Refused, match=r"no model today .*wait for it") as refused:
            await say(editor, session, "go")
        assert (refused.value.code, refused.value.data["kind"]) == (-32603, "ModelOverloadedError")
        assert await say(editor, session, "go") == "end_turn"


async def test_a_fault_of_ours_ends_its_session_and_no_other(project, caplog):
    sessions = opener()
    async with open_editor(sessions) as editor:
        first, second = await begin(editor, project), await begin(editor, project)
        sessions.has_fault = first
        with pytest.raises(Refused, match="a fault of ours"):
            await say(editor, first, "hello")
        assert await say(editor, second, "hello") == "end_turn"
        with pytest.raises(Refused, match="not open"):
            await say(editor, first, "hello")
    assert f"the session {first} has ended" in caplog.text


async def test_a_request_that_is_taken_back_at_its_last_moment_leaves_no_session(project):
    ids, is_leaving, may_leave = [], trio.Event(), trio.Event()

    async def agent(internals, tools, permissions):
        await coder(internals, ScriptedProvider("hello"), tools, permissions)

    class TakenBack(Opener):
        @asynccontextmanager
        async def open(self, request):
            async with super().open(request) as parts:
                with trio.CancelScope(shield=True):
                    await editor.tell("$/cancel_request", requestId=ids[0])
                    await wait_all_tasks_blocked()
                try:
                    yield parts
                finally:
                    with trio.CancelScope(shield=True):
                        is_leaving.set()
                        await may_leave.wait()

    sessions = TakenBack(agent)
    async with open_editor(sessions) as editor:
        ids.append(await editor.begin("session/new", cwd=str(project), mcpServers=[]))
        await is_leaving.wait()
        with pytest.raises(Refused, match="not open") as refused:
            await say(editor, sessions.opened[0].session.session_id, "hello")
        assert refused.value.code == -32002
        may_leave.set()
        with pytest.raises(Refused, match="cancelled"):
            await editor.wait(ids[0])


async def test_an_agent_that_crashes_is_the_error_of_the_prompt(project):
    async def crash(agent, tools, permissions):
        async for message in agent.inputs():
            async with agent.turn(message):
                raise RuntimeError("a bug of ours")

    async with open_editor(Opener(crash)) as editor:
        first, second = await begin(editor, project), await begin(editor, project)
        with pytest.raises(Refused, match="a bug of ours"):
            await say(editor, first, "go")
        assert second != first
        with pytest.raises(Refused, match="a bug of ours"):
            await say(editor, second, "go")


@pytest.mark.parametrize(
    ("answer", "admitted"),
    [("allow_once", [False]), ("allow_always", [True]), ("reject_once", []), (None, [])],
)
async def test_servers_of_the_editor_are_asked_about_once(project, answer, admitted):
    sessions = opener()
    sessions.waiting = ("files: /bin/files --all",)
    async with open_editor(sessions) as editor:
        editor.answers["session/request_permission"] = choose(answer or "nonsense")
        session = await begin(editor, project)
        assert await say(editor, session, "hello") == "end_turn"
        [(_, question)] = editor.asked
        assert "files: /bin/files --all" in str(question["toolCall"]["content"])
        assert sessions.admitted == admitted
        ends = [each["status"] for each in editor.shown("tool_call_update")]
        assert ends == ["completed" if admitted else "failed"]
        await say(editor, session, "hello")
        assert len(editor.asked) == 1


async def test_a_cancel_while_servers_are_asked_about_asks_again(project):
    sessions = opener()
    sessions.waiting = ("files: /bin/files",)
    async with open_editor(sessions) as editor:
        asked = trio.Event()

        async def never(params):
            asked.set()
            await trio.sleep_forever()

        editor.answers["session/request_permission"] = never
        session = await begin(editor, project)
        blocks = [{"type": "text", "text": "hello"}]
        prompt = await editor.begin("session/prompt", sessionId=session, prompt=blocks)
        await asked.wait()
        await editor.tell("session/cancel", sessionId=session)
        assert await editor.wait(prompt) == {"stopReason": "cancelled"}
        editor.answers["session/request_permission"] = choose("allow_once")
        assert await say(editor, session, "hello") == "end_turn"
        assert sessions.admitted == [False]


async def test_an_editor_that_reads_nothing_for_a_while_misses_no_end_and_no_question(project):
    """The ring of the agent forgets what has not been read, the end of a turn among it."""

    async def flood(agent, tools, permissions):
        async for message in agent.inputs():
            async with agent.turn(message):
                for number in range(100 if message.text == "first" else 500):
                    agent.send_nowait(TextDelta(f"{number} "))
                    agent.send_nowait(ThinkingDelta(f"{number} "))
                if message.text == "third":
                    await agent.request_permission("Deploy", "deploy it", digest="d-1")
                agent.session.add_message(Message.assistant("done"))

    sessions = Opener(flood, limits=RuntimeLimits(ring_chunks=300))
    async with open_editor(sessions) as editor:
        editor.answers["session/request_permission"] = choose("once")
        session = await begin(editor, project)
        editor.reads = trio.Event()
        prompts = []
        for text in ("first", "second", "third"):
            blocks = [{"type": "text", "text": text}]
            prompts.append(await editor.begin("session/prompt", sessionId=session, prompt=blocks))
        while not await sessions.handles[session].pending():
            await trio.lowlevel.checkpoint()
        editor.reads.set()
        ends = [await editor.wait(each) for each in prompts]
        assert ends == [{"stopReason": "end_turn"}] * 3
        assert "is missing here" in editor.text("agent_thought_chunk")
        assert len(editor.asked) == 1
