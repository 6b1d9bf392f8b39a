"""`greenroom attach`: an agent of a server in this terminal."""

import os
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from greenroom import Agent, AgentSession, PermissionManager, PermissionRule, tool
from greenroom.cli.attach_command import Attachment, find_attachment, show_attachment, way_back
from greenroom.cli.choices import find_choices
from greenroom.cli.command_options import AttachOptions
from greenroom.cli.settings import Settings
from greenroom.cli.terminal import KeyName
from greenroom.core import ConfigurationError, Message, PermissionRequest, TextDelta
from greenroom.interop import RemoteError, remote_server, remote_turn
from greenroom.runtime._internal import calling_internals
from greenroom.testing import ScriptedProvider, call
from tests.cli.test_renderer import HandTerminal
from tests.interop.serving.remotes import Partition, find_far, standing_between
from tests.interop.serving.services import echo, open_service, until


@asynccontextmanager
async def serving(tmp_path, **agents):
    async with open_service(tmp_path, agents=agents) as service:
        yield service


class Attached:
    """A terminal on an agent of a server, in the test's hands."""

    def __init__(self):
        self.terminal = HandTerminal()
        self.ended = trio.Event()
        self.code = self.last_words = None

    async def run(self, options):
        attachment = await find_attachment(options)
        self.code, self.last_words = await show_attachment(attachment, self.terminal, Settings())
        self.ended.set()

    async def leave(self):
        for _ in range(2):
            await self.terminal.press(KeyName.CTRL_D)
        await self.ended.wait()


@asynccontextmanager
async def attached(url, **options):
    shown = Attached()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.run, AttachOptions(url=f"{url}#token=token-of-ann", **options))
        yield shown
        nursery.cancel_scope.cancel()


def deploy(place: str) -> str:
    """Deploy it."""
    return f"deployed {place}"


async def help_out(text: str) -> str:
    """Ask a subagent."""
    handle = calling_internals().spawn(AgentSession.new("below"), echo)
    return (await handle.ask(text)).text


def make_coder(*steps):
    rules = PermissionManager(
        [PermissionRule.ask_for_tool("deploy"), PermissionRule.allow_tool("help_out")]
    )
    tools = [deploy, tool(help_out)]
    return Agent(ScriptedProvider(*steps), name="coder", tools=tools, permissions=rules)


async def test_a_conversation_with_questions_and_subagents_is_as_with_one_of_here(tmp_path):
    coder = make_coder("Hello *there*.", call("deploy", place="x"), "Done.",
                       call("help_out", text="below"), "Helped.")  # fmt: skip
    async with serving(tmp_path, coder=coder) as service, attached(service.link) as shown:
        terminal = shown.terminal
        host = service.link.removeprefix("http://")
        await terminal.wait_for(f"coder · {host}")
        await terminal.say("hi")
        await terminal.wait_for("Hello there.", "idle")
        await terminal.say("go")
        await terminal.wait_for(f"on the machine {host}", os.getcwd(), "[y] once")
        await terminal.answer("y")
        await terminal.wait_for("deployed x", "Done.", "idle")
        await terminal.say("help")
        await terminal.wait_for("below", "Helped.", "idle")
        await terminal.press(KeyName.NEXT_MODE)
        await terminal.wait_for("the mode can't be switched here")
        far = find_far(service, "coder")
        await shown.leave()
        assert shown.code == 0
        assert shown.last_words == (
            f"greenroom attach {service.link} --session {far.session_id}   continues this session"
        )
    assert "token-of" not in terminal.text + shown.last_words


class Slow:
    """Says that it works, and does until it is let go."""

    def __init__(self):
        self.alive, self.go_on = 0, trio.Event()

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                self.alive += 1
                try:
                    await agent.send(TextDelta(f"working at {message.text}\n\n"))
                    await self.go_on.wait()
                finally:
                    self.alive -= 1
                agent.session.add_message(Message.assistant(f"did {message.text}"))
                await agent.send(TextDelta(f"did {message.text}\n\n"))


async def test_an_interrupt_and_leaving_stop_the_far_turn(tmp_path):
    slow = Slow()
    async with serving(tmp_path, slow=slow) as service, attached(service.link) as shown:
        await shown.terminal.say("this")
        await shown.terminal.wait_for("working at this")
        await shown.terminal.press(KeyName.ESCAPE)
        await shown.terminal.wait_for("idle")
        assert slow.alive == 0
        await shown.terminal.say("that")
        await shown.terminal.wait_for("working at that")
        await shown.leave()
        assert (slow.alive, shown.code) == (0, 0)


async def test_a_connection_that_breaks_is_said_and_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_turn, "_SILENT", 0.15)
    slow = Slow()
    async with serving(tmp_path, slow=slow) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, attached(link) as shown:
            host = link.removeprefix("http://")
            await shown.terminal.say("this")
            await shown.terminal.wait_for("working at this")
            parted.begin("cut")
            await shown.terminal.wait_for(f"the connection to {host} is broken")
            slow.go_on.set()
            parted.end()
            await shown.terminal.wait_for(f"connected to {host} again", "did this", "idle")
            assert shown.terminal.text.count("working at this") == 1
            await shown.leave()


async def test_a_server_that_is_gone_for_good_ends_it_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_server, "LOST", 0.3)
    slow = Slow()
    async with serving(tmp_path, slow=slow) as service:
        parted = Partition(service)
        async with standing_between(service, parted) as link, attached(link) as shown:
            await shown.terminal.say("this")
            await shown.terminal.wait_for("working at this")
            parted.begin("cut")
            await shown.ended.wait()
            assert shown.code == 1
            assert shown.last_words.startswith(f"{link.removeprefix('http://')} can't be reached")
            slow.go_on.set()


async def test_a_turn_that_is_open_is_joined_and_what_was_said_is_shown(tmp_path):
    slow = Slow()
    async with serving(tmp_path, slow=slow) as service:
        session = await service.create("slow", "their work")

        async def is_alive():
            return slow.alive

        await until(is_alive)
        async with attached(service.link, session=session) as shown:
            await shown.terminal.wait_for(f"session {session}, so far:", "working at their work")
            slow.go_on.set()
            await shown.terminal.wait_for("did their work", "idle")
            await shown.terminal.say("mine")
            await shown.terminal.wait_for("did mine", "idle")
            await shown.leave()
            assert session in shown.last_words


async def test_a_question_that_waits_is_asked_when_somebody_attaches(tmp_path):
    coder = make_coder(call("deploy", place="x"), "Done.")
    async with serving(tmp_path, coder=coder) as service:
        session = await service.create("coder", "go")

        async def is_asked():
            return await find_far(service, "coder").pending()

        await until(is_asked)
        async with attached(service.link, session=session) as shown:
            await shown.terminal.wait_for("deploy", "[y] once")
            await shown.terminal.answer("y")
            await shown.terminal.wait_for("deployed x", "Done.", "idle")


async def test_what_is_wrong_is_said_in_a_line_before_it_begins(tmp_path):
    async def fault(url, **options):
        with pytest.raises((ConfigurationError, RemoteError)) as caught:
            await find_attachment(AttachOptions(url=url, **options))
        assert "token-of" not in str(caught.value)
        return str(caught.value)

    async with serving(tmp_path, slow=Slow()) as service:
        host = service.link.removeprefix("http://")
        assert f"{host} wants a token" in await fault(service.link)
        assert f"{host} refuses the token" in await fault(f"{service.link}#token=token-of-x")
        mine = f"{service.link}#token=token-of-ann"
        assert "serves no agent 'fast' (it serves slow)" in await fault(mine, agent="fast")
        session = await service.create("slow")
        told = await fault(mine, session="s-none")
        assert "has no session 's-none' of yours" in told
        assert session in told
        file = tmp_path / "mine"
        file.write_text("token-of-ann\n")
        found = await find_attachment(AttachOptions(url=service.link, token_file=str(file)))
        assert (found.agent, found.token) == ("slow", "token-of-ann")
        assert "can't be read" in await fault(service.link, token_file=str(tmp_path / "none"))
        file.write_text("two\nlines")
        assert "that is not a token" in await fault(service.link, token_file=str(file))
    assert "is http://HOST:PORT" in await fault("nowhere")


async def test_what_is_no_greenroom_server_is_named(tmp_path):
    async def page(stream):
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, page, listeners)
        host = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        with pytest.raises(RemoteError, match=f"{host} is not a Greenroom server"):
            await find_attachment(AttachOptions(url=f"http://{host}"))
        nursery.cancel_scope.cancel()


async def test_in_a_real_terminal_it_is_left_with_the_way_back(tmp_path, terminal):
    coder = make_coder(call("deploy", place="x"), "It is *deployed*.")
    async with serving(tmp_path, coder=coder) as service:

        def drive():
            program = terminal("attach", service.link, GREENROOM_TOKEN="token-of-ann")
            program.wait_for("coder · ")
            program.type("go\r")
            program.wait_for("allow? >", "on the machine", "[y] once")
            return program

        program = await trio.to_thread.run_sync(drive)

        def finish():
            program.type("y\r")
            program.wait_for("It is deployed.")
            program.type("\x04")
            assert program.wait() == 0
            assert f"greenroom attach {service.link} --session" in program.screen

        await trio.to_thread.run_sync(finish)


def test_far_questions_are_remembered_for_the_session_at_most_and_given_no_credential():
    rules = {"remembers": ("Bash(ls)",), "forbids": ("Bash(ls)",)}
    request = PermissionRequest("p-1", "Bash", "list", host="there", **rules)
    choices = find_choices(request, can_hide=True)
    assert {each.remember for each in choices} == {None, "session"}
    here = find_choices(msgspec.structs.replace(request, host=""), can_hide=True)
    assert {each.remember for each in here} == {None, "session", "project", "always"}
    asked = msgspec.structs.replace(request, credential="api-key")
    assert not any(each.asks_value for each in find_choices(asked, can_hide=True))


def test_a_server_that_cannot_be_reached_is_a_line_and_an_exit_code(run, monkeypatch):
    monkeypatch.setattr("greenroom.cli.attach_command._FIRST_TRY", 0.05)
    done = run("attach", "http://127.0.0.1:9")
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert "127.0.0.1:9 can't be reached" in done.err


def test_a_token_is_in_no_repr():
    options = AttachOptions(url="http://127.0.0.1:1/#token=s3cr3t")
    attachment = Attachment("http://127.0.0.1:1", "127.0.0.1:1", "s3cr3t", "helper")
    assert "s3cr3t" not in f"{options!r} {attachment!r}"


def test_the_way_back_is_one_word_whatever_the_server_calls_the_session():
    assert way_back("http://a", "s-1") == "greenroom attach http://a --session s-1"
    assert (
        way_back("http://a", "x; rm -rf ~") == "greenroom attach http://a --session 'x; rm -rf ~'"
    )
    assert "\x1b" not in way_back("http://a", "\x1b]0;owned\x07")
