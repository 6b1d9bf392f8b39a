"""Answers that come later: a run that ends at a question, and another one that goes on."""

import textwrap

import pytest

from greenroom import (
    Agent,
    AgentSession,
    Answer,
    ConfigurationError,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    RuleDecision,
    SQLiteStore,
)
from greenroom.agents import AlreadyAnsweredError
from greenroom.agents.agent_run import _collect_answers
from greenroom.core import TurnError
from greenroom.testing import ScriptedProvider, call
from tests.warm_python import run_warm

RULES = [PermissionRule.ask_for_tool("deploy"), PermissionRule.allow_tool("look")]


class Shop:
    """An agent that deploys, anew in each process, and a store that they share."""

    def __init__(self, store):
        self.store = store
        self.ran = []

    def agent(self, *script):
        def deploy(where: str = "shop") -> str:
            """Deploy."""
            self.ran.append(where)
            return "deployed"

        def look() -> str:
            """Look."""
            self.ran.append("look")
            return "rain"

        tools = [deploy, look]
        return Agent(ScriptedProvider(*script), tools=tools, permissions=PermissionManager(RULES))

    async def ask(self, *calls, **options):
        """Run until the first question."""
        script = list(calls) or [call("deploy")]
        options = {"store": self.store, "approve": "later", **options}
        result = await self.agent(script).run("Ship it.", **options)
        assert result.status == "waiting"
        return result


@pytest.fixture(params=["memory", "files", "sqlite"])
async def shop(request, tmp_path):
    match request.param:
        case "memory":
            yield Shop(InMemoryStore())
        case "files":
            yield Shop(FileStore(tmp_path / "sessions"))
        case "sqlite":
            yield Shop(SQLiteStore(tmp_path / "sessions.db"))


async def test_a_run_ends_at_the_first_question_and_says_what_it_asks(shop):
    result = await shop.ask(call("look"), call("deploy"))
    [request] = result.pending
    assert (request.tool_name, request.input, result.steps) == ("deploy", {}, 1)
    assert (shop.ran, result.denials, result.error) == (["look"], (), None)
    with pytest.raises(TurnError, match="waiting") as caught:
        _ = result.output
    assert "answers=" in caught.value.hint


@pytest.mark.parametrize("answer", ["allow", True, Answer(RuleDecision.ALLOW)])
@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.every(3)
async def test_the_answer_goes_on_where_the_run_has_ended(shop, answer, by_id):
    first = await shop.ask()
    session = first.session.session_id if by_id else first.session
    answers = {first.pending[0].request_id: answer}
    result = await shop.agent("It is out.").run(session=session, store=shop.store, answers=answers)
    assert (result.output, shop.ran, result.steps) == ("It is out.", ["shop"], 1)
    assert [message.role for message in result.session.history] == ["user", "assistant"] * 2


@pytest.mark.parametrize("answer", ["deny", False, Answer(RuleDecision.DENY, message="On Monday.")])
async def test_a_denial_goes_on_too(shop, answer):
    first = await shop.ask()
    session, answers = first.session.session_id, {first.pending[0].request_id: answer}
    result = await shop.agent("Then not.").run(session=session, store=shop.store, answers=answers)
    assert (result.output, shop.ran) == ("Then not.", [])
    assert [denial.tool for denial in result.denials] == ["deploy"]
    if isinstance(answer, Answer):
        assert "On Monday." in result.denials[0].reason


async def test_several_questions_are_answered_one_after_the_other(shop):
    result = await shop.ask(*(call("deploy", where=place) for place in "abc"))
    again = {"session": result.session.session_id, "store": shop.store}
    denials = []
    for place, ran in zip("abc", ([], ["a"], ["a"]), strict=True):
        [request] = result.pending
        assert request.input == {"where": place}
        assert shop.ran == ran  # what was allowed does not wait for the other answers
        answers = {request.request_id: "deny" if place == "b" else "allow"}
        result = await shop.agent("Done.").run(**again, answers=answers, approve="later")
        denials += result.denials
    assert result.output == "Done."
    assert [denial.input for denial in denials] == [{"where": "b"}]
    assert shop.ran == ["a", "c"]


async def test_a_question_is_denied_where_nobody_waits_for_its_answer(shop):
    first = await shop.ask(call("deploy", where="a"), call("deploy", where="b"))
    again = {"session": first.session.session_id, "store": shop.store}
    answers = {first.pending[0].request_id: "allow"}
    second = await shop.agent("Done.").run(**again, answers=answers)
    assert [denial.input for denial in second.denials] == [{"where": "b"}]
    assert shop.ran == ["a"]


async def test_a_function_may_answer_what_was_left_open(shop):
    first = await shop.ask()

    async def approve(request):
        return request.request_id == first.pending[0].request_id

    session = first.session.session_id
    result = await shop.agent("Out.").run(session=session, store=shop.store, approve=approve)
    assert (result.output, shop.ran) == ("Out.", ["shop"])


async def test_an_input_goes_on_without_the_calls(shop):
    first = await shop.ask()
    session = first.session.session_id
    result = await shop.agent("As you like.").run("Stop.", session=session, store=shop.store)
    assert (result.output, shop.ran) == ("As you like.", [])
    again = {"session": session, "store": shop.store}
    with pytest.raises(AlreadyAnsweredError, match="left behind"):
        await shop.agent("Out.").run(**again, answers={first.pending[0].request_id: "allow"})


async def test_a_second_answer_is_an_error_of_its_own(shop):
    first = await shop.ask(call("deploy", where="a"), call("deploy", where="b"))
    again = {"session": first.session.session_id, "store": shop.store}
    answer = {first.pending[0].request_id: "allow"}
    second = await shop.agent("Done.").run(**again, answers=answer, approve="later")
    with pytest.raises(AlreadyAnsweredError) as caught:
        await shop.agent("Done.").run(
            **again, answers=answer | {first.pending[0].request_id: "deny"}
        )
    assert caught.value.session_id == first.session.session_id
    await shop.agent("Done.").run(**again, answers={second.pending[0].request_id: "allow"})
    with pytest.raises(AlreadyAnsweredError):
        await shop.agent("Done.").run(**again, answers={second.pending[0].request_id: "allow"})
    assert shop.ran == ["a", "b"]


async def test_an_answer_that_was_stored_may_be_given_again_and_another_one_not(shop):
    """A run that is cut off right after it has stored an answer can be tried again."""
    first = await shop.ask()
    request_id = first.pending[0].request_id
    again = {"session": first.session.session_id, "store": shop.store}
    cut_off = await AgentSession.load(again["session"], store=shop.store, keep_open=True)
    _collect_answers(cut_off, {request_id: "allow"})
    await cut_off.save()
    with pytest.raises(AlreadyAnsweredError):
        await shop.agent("Done.").run(**again, answers={request_id: "deny"})
    await shop.agent("Done.").run(**again, answers={request_id: True})
    assert shop.ran == ["shop"]


@pytest.mark.parametrize(
    ("answers", "error", "match"),
    [
        ({"p-unknown": "allow"}, ConfigurationError, "no open question 'p-unknown'"),
        (None, TypeError, "an answer is"),
    ],
)
async def test_answers_to_nothing_are_refused_before_anything_runs(shop, answers, error, match):
    first = await shop.ask()
    answers = answers or {first.pending[0].request_id: "maybe"}
    session = first.session.session_id
    with pytest.raises(error, match=match):
        await shop.agent("Out.").run(session=session, store=shop.store, answers=answers)
    assert not shop.ran


async def test_a_call_that_changed_meanwhile_is_asked_again(shop, tmp_path, monkeypatch):
    """The answer is bound to the folder in which the call would run."""
    first = await shop.ask()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    answers = {first.pending[0].request_id: "allow"}
    again = {"session": first.session, "answers": answers, "approve": "later"}
    second = await shop.agent().run(**again)
    assert (second.status, shop.ran) == ("waiting", [])
    assert second.pending[0].request_id == first.pending[0].request_id
    # Nor does the answer count for what is asked now, in a run after that.
    third = await shop.agent().run(session=first.session, approve="later")
    assert (third.status, shop.ran) == ("waiting", [])
    answers = {first.pending[0].request_id: "allow"}
    await shop.agent("Out.").run(session=first.session, answers=answers)
    assert shop.ran == ["shop"]


PROGRAM = """
import sys
from pathlib import Path
from greenroom import Agent, FileStore, PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from tests.warm_python import run_warm

def deploy() -> str:
    "Deploy."
    with Path("log").open("a") as log: log.write("deployed;")
    return "deployed"

rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
store = FileStore("sessions")
script = [call("deploy")] if len(sys.argv) == 1 else ["It is out."]
agent = Agent(ScriptedProvider(*script), tools=[deploy], permissions=rules)
if len(sys.argv) == 1:
    result = agent.run_sync("Ship it.", store=store, approve="later")
    print(result.session.session_id, result.pending[0].request_id)
else:
    session, request = sys.argv[1:]
    print(agent.run_sync(session=session, store=store, answers={request: "allow"}).output)
"""


def test_the_process_may_be_another_one(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))

    def run(*arguments):
        code, printed, errors = run_warm([program, *arguments], tmp_path, {})
        assert code == 0, errors
        return printed.split(maxsplit=1)

    ids = [word.strip() for word in run()]
    assert not (tmp_path / "log").exists()
    assert "".join(run(*ids)).replace(" ", "") == "Itisout.\n".replace(" ", "")
    assert (tmp_path / "log").read_text() == "deployed;"
