"""The plugin in test runs of its own: opt-in, in memory, on a clock that jumps."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from greenroom.llm._internal import forbids_calls
from greenroom.testing import pytest_plugin
from tests.warm_python import run_warm

ROOT = Path(__file__).parents[2]

AGENT = """
import pytest
import trio
from trio.testing import MockClock

from greenroom import AgentSession, Message


async def slow(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep(3600)
            root = agent.context.workspace.root
            agent.session.add_message(Message.assistant(f"{message.text} in {root}"))
"""

OPT_IN = "pytest_plugins = ['greenroom.testing.pytest_plugin']\n"


ALONE = ("-p", "trio")
"""The one plugin that most of these runs need: what else is installed takes longer than they do."""


def run_tests(folder, tests, conftest=OPT_IN, options=ALONE, *, warm=True):
    (folder / "conftest.py").write_text(conftest)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (folder / "test_it.py").write_text(AGENT + tests)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    # The options of the run that this one is inside of are not meant for it, nor is where that
    # runs.
    ours = ("PYTEST_ADDOPTS", "CI", "BUILD_NUMBER")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    if options[:2] == ALONE:
        env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    _, printed, errors = run_warm(command, folder, env) if warm else run_cold(command, folder, env)
    return printed + errors


def run_cold(command, folder, env):
    """Run it in a Python that has imported nothing of ours."""
    command = [sys.executable, *command]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_run_agent_works_in_a_plain_test_in_a_folder_of_its_own(tmp_path):
    tests = """
def test_plain(run_agent, memory_store, tmp_path):
    run = run_agent(slow, inputs="hello")
    assert run.text == f"hello in {tmp_path}"
    load = lambda: AgentSession.load(run.session_id, store=memory_store)
    assert trio.run(load).history == run.history
"""
    assert "1 passed" in run_tests(tmp_path, tests)


def test_a_runtime_for_async_tests_has_a_clock_that_jumps_unless_another_is_named(tmp_path):
    tests = """
async def test_jumping(agent_runtime, tmp_path):
    handle = agent_runtime.spawn(AgentSession.new("slow"), slow)
    assert (await handle.ask("hello")).text == f"hello in {tmp_path}"


async def test_by_hand(agent_runtime, mock_clock):
    handle = agent_runtime.spawn(AgentSession.new("slow"), slow)
    mock_clock.rate = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.ask, "hello")
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(3600)
"""
    assert "2 passed" in run_tests(tmp_path, tests)


def test_it_is_found_by_option_too(tmp_path):
    tests = (
        "def test_plain(run_agent): assert run_agent(slow, inputs='a').text.startswith('a in')\n"
    )
    options = (*ALONE, "-p", "greenroom.testing.pytest_plugin")
    assert "1 passed" in run_tests(tmp_path, tests, "", options)


def test_nothing_of_it_is_loaded_where_nobody_asks(tmp_path):
    tests = """
def test_loaded(): import sys; assert 'greenroom.testing' not in sys.modules
def test_plain(run_agent): pass
"""
    said = run_tests(tmp_path, tests, "", options=(), warm=False)
    assert "fixture 'run_agent' not found" in said
    assert "1 passed, 1 error" in said


def test_without_pytest_trio_the_fixture_says_what_to_install(tmp_path):
    tests = """
async def test_it(agent_runtime): pass
def test_that(agent_runtime): pass
def test_plain(run_agent): pass
"""
    said = run_tests(tmp_path, tests, options=("-p", "no:trio"))
    assert said.count("agent_runtime needs pytest-trio: pip install 'greenroom[testing]'") == 2
    assert re.search("1 passed, .*2 errors", said)


def test_without_pytest_importing_it_says_what_to_install(tmp_path):
    script = (
        "import sys; sys.modules['pytest'] = None; import greenroom.testing;"
        "import greenroom.testing.pytest_plugin"
    )
    _, _, said = run_cold(["-c", script], ROOT, os.environ)
    assert "ModuleNotFoundError: greenroom.testing.pytest_plugin needs pytest" in said
    assert "pip install 'greenroom[testing]'" in said


REAL = """
import pytest
from greenroom import Message
from greenroom.llm import OpenAIProvider
from greenroom.llm._internal import ModelCallForbiddenError
from greenroom.llm import ModelRequest
from greenroom.llm._internal import forbids_calls

llm = OpenAIProvider("m", api_key="k", env={})

def call():
    trio.run(llm.generate, ModelRequest(messages=(Message.user("hello"),)))
"""


def test_a_fixture_forbids_real_calls_during_one_test(tmp_path):
    tests = f"""{REAL}
def test_it(forbid_model_calls):
    with pytest.raises(ModelCallForbiddenError):
        call()

def test_that():
    assert not forbids_calls()
"""
    assert "2 passed" in run_tests(tmp_path, tests)


@pytest.mark.parametrize("asked", ["--forbid-model-calls", "forbid_model_calls", ""])
def test_an_option_and_a_setting_forbid_real_calls_while_tests_run(asked):
    session = Mock()
    session.config.getini = session.config.getoption = asked.__eq__
    loop = pytest_plugin.pytest_runtestloop(session)
    next(loop)
    assert forbids_calls() is bool(asked)
    with pytest.raises(StopIteration, match="done"):
        loop.send("done")
    assert not forbids_calls()
