"""A recorded session as a test file: it stands alone, passes, and fails after a change."""

import os

import pytest

from greenroom import ConfigurationError
from greenroom.testing import Drift, export_test, run_in_virtual_time
from tests.testing.recorded_talks import make, record
from tests.warm_python import run_warm

AGENTS = '''
from greenroom import Agent, PermissionManager, PermissionRule

def fetch(page: str) -> str:
    """Fetch a page."""
    raise AssertionError("a test runs no tool")

ann = Agent(
    "anthropic:claude-sonnet-5-5",
    name="ann",
    instructions="Be brief.",
    tools=[fetch],
    permissions=PermissionManager(rules=[PermissionRule.allow_all()]),
)
'''
RECORDED = '''
from greenroom import AgentRuntime, AgentSession, FileStore
from greenroom.observability import TraceFile, Tracer, read_trace
from greenroom.testing import ScriptedProvider, call, export_test
import shop
import trio

async def main():
    steps = [[call("fetch", page='"""a\\\\b')], "It is sk-proj-Zq8x7Yw6Vv5Uu4Tt3Ss2Rr1, 'kept'."]
    llm = ScriptedProvider(*steps, "Bye.", name="anthropic", model="claude-sonnet-5-5")
    agent = shop.ann.replace_model(llm)
    store = FileStore("sessions")
    async with TraceFile() as file:
        async with AgentRuntime(store, instruments=[Tracer(file, content="redacted")]) as runtime:
            session = AgentSession.new("ann", session_id="s-1 (2)", store=store)
            handle = runtime.spawn(session, agent)
            await handle.ask("Fetch a.")
            await handle.ask("Thanks.")
            await handle.shutdown()
    session = await AgentSession.load("s-1 (2)", store=store)
    trace = await read_trace("s-1 (2)", store=store)
    print(await export_test(session, trace, "shop:ann"))

trio.run(main)
'''


@pytest.fixture
def project(tmp_path):
    """A folder of a user's, and what runs Python there, without any key."""
    (tmp_path / "shop.py").write_text(AGENTS)
    (tmp_path / "record.py").write_text(RECORDED)
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}

    def python(*words):
        return run_warm(words, tmp_path, {**kept, "HOME": str(tmp_path)})

    python.folder = tmp_path
    return python


def test_the_file_passes_alone_and_fails_after_a_change_with_the_difference(project):
    code, made, errors = project("record.py")
    assert code == 0, errors
    assert "sk-proj" not in made
    (project.folder / "test_talk.py").write_text(made)
    assert "def test_s_1_2()" in made
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_talk.py")
    code, printed, _ = project(*words)
    assert code == 0, printed
    assert "1 passed" in printed
    changed = AGENTS.replace("Be brief.", "Be polite.")
    (project.folder / "shop.py").write_text(changed)
    code, printed, _ = project(*words)
    assert code == 1
    assert "request 1 is not as on record" in printed
    assert '-      "content": "Be brief."' in printed
    assert '+      "content": "Be polite."' in printed


def test_random_talks_are_checked_from_their_texts(tmp_path):
    async def main():
        for seed in range(3):
            session, trace = await record(tmp_path / str(seed), seed)
            source = await export_test(session, trace, "shop.bots:ann")
            names = {}
            exec(source.replace("from shop.bots import ann", "ann = None"), names)
            await Drift.check(names["RECORD"], make())
            with pytest.raises(AssertionError, match=r"request 1 is not as on record:\n--- rec"):
                await Drift.check(names["RECORD"], make(instructions="Be quick."))

    run_in_virtual_time(main)


def test_what_is_no_record_or_no_name_is_refused(tmp_path):
    async def main():
        with pytest.raises(ConfigurationError, match="this is not the record of a session"):
            await Drift.check("hello", make())
        with pytest.raises(ConfigurationError, match="this is not the record of a session"):
            await Drift.check("", make())
        session, trace = await record(tmp_path, 1)
        for name in ("shop", "shop:", ":ann", "shop:ann()", "shop-1:ann", "a;b:c"):
            with pytest.raises(ConfigurationError, match="does not say where the agent is"):
                await export_test(session, trace, name)

    run_in_virtual_time(main)
