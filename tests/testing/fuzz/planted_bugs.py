"""More tools, and agents, that a cancel breaks, each with what a report has to say of it.

Each is a function that makes a scenario anew.
"""

import contextlib
import json
import locale
import logging
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
import warnings
from contextlib import suppress
from pathlib import Path

import anyio
import trio

from greenroom.core import AgentContext, Message, Shutdown, ToolError, UserInput
from greenroom.runtime import spawn_subagent
from greenroom.session import AgentSession
from greenroom.testing import Scenario
from greenroom.tools import tool

PLANTED = {}
"""The makers of the scenarios, the mode and the invariant that find each, and what is said."""


def planted(invariant, says):
    """Register the function of a tool, which is made anew by the function around it."""

    def register(make):
        makers = (lambda: Scenario.of_tool(tool(make()), {}), "interrupt")
        PLANTED[make.__name__] = (*makers, invariant, says)
        return make

    return register


def planted_agent(invariant, says, mode="interrupt"):
    """Register the function that makes an agent, and the mode to find it by."""

    def register(make):
        makers = (lambda: Scenario(make(), inputs="Press!"), mode)
        PLANTED[make.__name__] = (*makers, invariant, says)
        return make

    return register


def changes(says):
    """Register a function that changes a setting, and returns the one that puts it back."""

    def register(change):
        def make():
            async def press() -> str:
                """Work with another setting, which is put back if nothing comes between."""
                put_back = change()
                await trio.sleep(1)
                put_back()
                return "pressed"

            return press

        make.__name__ = change.__name__
        planted("settings_are_restored", says)(make)
        return change

    return register


@changes("the signal handler of SIGTERM")
def a_signal_handler():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return lambda: signal.signal(signal.SIGTERM, before)


@changes("an alarm")
def an_alarm():
    signal.alarm(1000)
    return lambda: signal.alarm(0)


@changes("the signals that are blocked")
def blocked_signals():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    return lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)


@changes("the umask, now 63")
def the_umask():
    before = os.umask(0o077)
    return lambda: os.umask(before)


@changes("sys.path")
def the_path_of_modules():
    sys.path.insert(0, "/nowhere")
    return lambda: sys.path.remove("/nowhere")


@changes("the module json")
def a_module_in_the_place_of_another():
    before, sys.modules["json"] = sys.modules["json"], time
    return lambda: sys.modules.update(json=before)


@changes("the level of the logger press, now 10")
def the_level_of_a_logger():
    logging.getLogger("press").setLevel(logging.DEBUG)
    return lambda: logging.getLogger("press").setLevel(logging.NOTSET)


@changes("the handlers of the root logger")
def a_handler_of_the_root_logger():
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    return lambda: logging.root.removeHandler(handler)


@changes("logging.disable")
def logging_that_is_off():
    logging.disable(logging.ERROR)
    return lambda: logging.disable(logging.NOTSET)


@changes("warnings.filters")
def warnings_that_are_ignored():
    warnings.simplefilter("ignore")
    return lambda: warnings.filters.pop(0)


@changes("the locale, now 'C.UTF-8'")
def the_locale():
    before = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C" if before == "C.UTF-8" else "C.UTF-8")
    return lambda: locale.setlocale(locale.LC_ALL, before)


@changes("sys.stdout")
def the_standard_output():
    redirected = contextlib.redirect_stdout(None)
    redirected.__enter__()
    return lambda: redirected.__exit__(None, None, None)


@changes("sys.excepthook")
def the_hook_of_exceptions():
    before, sys.excepthook = sys.excepthook, print
    return lambda: setattr(sys, "excepthook", before)


@changes("the profile function")
def the_profile_function():
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    return lambda: sys.setprofile(before)


@changes("the recursion limit")
def the_recursion_limit():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 100)
    return lambda: sys.setrecursionlimit(before)


@changes("RLIMIT_CORE")
def a_limit_of_resources():
    before = resource.getrlimit(resource.RLIMIT_CORE)
    soft = 0 if before[0] else 1024
    resource.setrlimit(resource.RLIMIT_CORE, (soft, before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_CORE, before)


@changes("the time limit of sockets, now 5.0")
def the_time_limit_of_sockets():
    socket.setdefaulttimeout(5)
    return lambda: socket.setdefaulttimeout(None)


@changes("random.random")
def a_function_of_a_module():
    before, random.random = random.random, lambda: 0.5
    return lambda: setattr(random, "random", before)


@changes("builtins.input")
def a_built_in_function():
    before, __builtins__["input"] = __builtins__["input"], lambda _: "yes"
    return lambda: __builtins__.update(input=before)


@planted("files_are_whole", "has half a line, and the next one behind it")
def a_log_that_ends_in_the_middle_of_a_line():
    async def press(context: AgentContext) -> str:
        """Append a line in two writes."""
        with (context.workspace.root / "press.log").open("a") as log:
            log.write("2 apples, ")
            await trio.sleep(1)
            log.write("pressed\n")
        return "pressed"

    return press


@planted("files_are_whole", "has 1 of the 2 lines that a call appends")
def a_log_whose_entry_is_not_closed():
    async def press(context: AgentContext) -> str:
        """Append the begin and the end of an entry."""
        with (context.workspace.root / "press.log").open("a") as log:
            log.write("begin\n")
            await trio.sleep(1)
            log.write("end\n")
        return "pressed"

    return press


@planted("files_are_whole", "a record that was appended by half")
def a_binary_record_by_half():
    async def press(context: AgentContext) -> str:
        """Append two halves of a record."""
        with (context.workspace.root / "press.bin").open("ab") as log:
            log.write(random.randbytes(4))
            await trio.sleep(1)
            log.write(random.randbytes(4))
        return "pressed"

    return press


@planted("files_are_whole", "juice.json is neither as before nor as after a call")
def a_list_that_is_written_in_place():
    async def press(context: AgentContext) -> str:
        """Write a list that grows in two parts."""
        path = context.workspace.root / "juice.json"
        items = json.loads(path.read_text()) if path.exists() else []
        with path.open("w") as file:
            file.write("[")
            file.flush()
            await trio.sleep(1)
            file.write(", ".join(["1", *map(str, items)]) + "]")
        return "pressed"

    return press


@planted("files_are_whole", "is empty, as it never is after a call")
def a_report_with_other_words_each_time():
    words = random.SystemRandom()

    async def press(context: AgentContext) -> str:
        """Write words that are never the same."""
        with (context.workspace.root / "report.txt").open("w") as file:
            await trio.sleep(1)
            file.write("".join(words.choices("abcdefgh ", k=200)) + "\n")
        return "pressed"

    return press


@planted("files_are_whole", "is not JSON, as it is after a call")
def a_json_file_with_other_words_each_time():
    words = random.SystemRandom()

    async def press(context: AgentContext) -> str:
        """Write words that are never the same."""
        with (context.workspace.root / "report.json").open("w") as file:
            file.write("[")
            await trio.sleep(1)
            file.write(json.dumps("".join(words.choices("abcdefgh ", k=200))) + "]")
        return "pressed"

    return press


@planted("what_is_called_done_is_done", "both have taken")
def an_order_that_is_marked_before_it_is_done():
    done = set()

    async def pay() -> str:
        """Mark it, and then pay."""
        if "bill" in done:
            return "it is paid"
        done.add("bill")
        await trio.sleep(1)
        return "paid"

    return pay


@planted("what_is_called_done_is_done", "there is no workspace/receipt.txt")
def a_mark_in_a_file_before_the_work():
    async def pay(context: AgentContext) -> str:
        """Mark it, and then pay."""
        mark = context.workspace.root / "done"
        was_paid = mark.exists()
        mark.touch()
        await trio.sleep(1)
        if not was_paid:
            (context.workspace.root / "receipt.txt").write_text("paid")
        return "paid"

    return pay


@planted("what_is_called_done_is_done", "checkpoints of")
def an_order_that_takes_no_time():
    done = set()

    async def pay() -> str:
        """Mark it, and then pay."""
        if "bill" not in done:
            done.add("bill")
            for _ in range(9):
                await trio.lowlevel.checkpoint()
        return "paid"

    return pay


@planted("runs_are_repeatable", "press() took")
def a_duration_by_chance():
    async def press() -> str:
        """Take a while."""
        await trio.sleep(random.SystemRandom().uniform(1, 5))
        return "pressed"

    return press


@planted("runs_are_repeatable", "it takes another way each time without any cancel: at checkpoint")
def a_branch_by_chance():
    async def press() -> str:
        """Take one way or another."""
        for _ in range(random.SystemRandom().randrange(1000)):
            await trio.lowlevel.checkpoint()
        return "pressed"

    return press


CALLS = []
"""How often a tool was called in all, as a server would count it."""


@planted("runs_are_repeatable", "press() ended")
def a_failure_by_chance():
    async def press() -> str:
        """Fail at times."""
        CALLS.append("press")
        await trio.sleep(1)
        if len(CALLS) % 5 == 0:
            raise ToolError("no apples")
        return "pressed"

    return press


@planted("no_cancel_is_swallowed", "went on to")
def a_loop_that_goes_on_after_a_cancel():
    async def press() -> str:
        """Try three times, whatever comes."""
        for _ in range(3):
            with suppress(BaseException):
                await trio.sleep(1)
        return "pressed"

    return press


@planted("a_call_is_whole_or_interrupted", "press(): error, 'it failed'")
def an_error_for_whatever_comes():
    async def press() -> str:
        """Say that it failed, also where it was stopped."""
        try:
            await trio.sleep(1)
        except BaseException as error:
            raise ToolError("it failed") from error
        return "pressed"

    return press


@planted("a_call_is_whole_or_interrupted", "let `trio.Cancelled` pass")
def a_cancel_that_is_swallowed_with_another_text_each_time():
    async def press() -> str:
        """Return what it has until then."""
        with suppress(trio.Cancelled):
            await trio.sleep(1)
        return f"pressed at {time.time_ns()}"

    return press


@planted("no_cancel_is_swallowed", "press, which went on to")
def a_cancel_that_is_swallowed_in_a_wait_of_a_library():
    async def press() -> str:
        """Go on with something else, whatever a library raises."""
        with suppress(BaseException):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 2)
        await anyio.sleep(1)
        return f"pressed at {time.time_ns()}"

    return press


@planted("no_cancel_is_swallowed", "press, which went on to")
def a_cancel_that_is_swallowed_while_a_subagent_works():
    async def helper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep(2)

    async def press() -> str:
        """Ask a subagent, and go on without it."""
        child = spawn_subagent(AgentSession.new("helper"), helper)
        with suppress(BaseException):
            await child.ask("Help!")
        await trio.sleep(1)
        await child.shutdown()
        return "pressed"

    return press


@planted("no_thread_is_left", "still running: ")
def a_timer_that_goes_on():
    async def press() -> str:
        """Start a timer."""
        timer = threading.Timer(3, lambda: None)
        timer.start()
        await trio.sleep(1)
        timer.cancel()
        timer.join()
        return "pressed"

    return press


@planted("no_file_is_left", "left behind: TMPDIR/")
def a_folder_that_is_left():
    async def press() -> str:
        """Work in a folder."""
        folder = tempfile.mkdtemp()
        (Path(folder) / "draft").touch()
        await trio.sleep(1)
        (Path(folder) / "draft").unlink()
        os.rmdir(folder)
        return "pressed"

    return press


def say(agent, text):
    agent.session.add_message(Message.assistant(text))


@planted_agent("a_turn_is_whole_or_interrupted", "says 'pressed' as a whole one does")
def an_agent_that_swallows_the_cancel():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with suppress(trio.Cancelled):
                    await trio.sleep(1)
                say(agent, "pressed")

    return agent


@planted_agent("no_cancel_is_swallowed", "which went on to tests/testing/fuzz/planted_bugs.py")
def an_agent_that_goes_on_after_the_cancel():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for step in range(3):
                    with suppress(BaseException):
                        await trio.sleep(1)
                    say(agent, f"step {step}")

    return agent


@planted_agent("no_cancel_is_swallowed", "`trio.Cancelled` was caught in", mode="cancel")
def an_agent_that_does_not_end():
    async def agent(agent):
        while True:
            try:
                message = await agent.receive()
            except BaseException:
                continue
            if isinstance(message, Shutdown):
                return
            if isinstance(message, UserInput):
                async with agent.turn(message):
                    await trio.sleep(1)

    return agent


@planted_agent("a_turn_is_whole_or_interrupted", "say that something is done once it is")
def an_agent_that_answers_before_it_works():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                say(agent, "pressed")
                await trio.sleep(1)

    return agent


@planted_agent("what_is_called_done_is_done", "mark as done what is done")
def an_agent_that_marks_its_input_before_it_works():
    done = set()

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text not in done:
                    done.add(message.text)
                    await trio.sleep(1)
                say(agent, "pressed")

    return agent


@planted_agent("settings_are_restored", "the environment's PRESS")
def an_agent_that_leaves_a_variable_set():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                os.environ["PRESS"] = "on"
                await trio.sleep(1)
                del os.environ["PRESS"]
                say(agent, "pressed")

    return agent


@planted_agent("no_cancel_is_swallowed", "`trio.Cancelled` was caught in")
def an_agent_that_swallows_what_its_tasks_raise():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with suppress(BaseException):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(trio.sleep, 1)
                say(agent, "pressed")
                await trio.sleep(1)

    return agent


@planted_agent("no_cancel_is_swallowed", "agent, which went on to")
def an_agent_that_swallows_the_cancel_of_a_question():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with suppress(BaseException):
                    await agent.request_permission("press", "Press apples", timeout=10)
                await trio.sleep(1)
                say(agent, "pressed")

    return agent


@planted_agent("what_is_called_done_is_done", "mark as done what is done")
def an_agent_that_marks_its_input_in_its_metadata():
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if agent.context.get_metadata(message.text) is None:
                    agent.context.set_metadata(message.text, "done")
                    await trio.sleep(1)
                say(agent, "pressed")

    return agent


@planted("files_are_whole", "has half a line, and the next one behind it")
def half_a_line_of_json_with_other_values_each_time():
    async def press(context: AgentContext) -> str:
        """Append an object in two writes."""
        with (context.workspace.root / "press.jsonl").open("a") as log:
            log.write(f'{{"at": {time.time()}, ')
            await trio.sleep(1)
            log.write(f'"id": "{uuid.uuid4()}"}}\n')
        return "pressed"

    return press
