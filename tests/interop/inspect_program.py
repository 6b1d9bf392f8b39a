"""Tasks of Inspect whose solvers are agents of ours; run by `test_inspect.py` where Inspect is."""

import os
import sys
from collections.abc import Callable

os.environ["INSPECT_ASYNC_BACKEND"] = "trio"

from inspect_ai import Task, eval as run_tasks
from inspect_ai.approval import ApprovalPolicy, auto_approver
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import chain, system_message, use_tools
from inspect_ai.tool import ToolCall, ToolError, tool
from pydantic import BaseModel

from greenroom import Agent, ConfigurationError
from greenroom.core import Price
from greenroom.flow import pipeline
from greenroom.interop.inspect import as_solver
from greenroom.testing import ScriptedProvider, call

asked = []


def model(*steps):
    """Return a model of Inspect that follows a script of outputs and functions of the request."""
    left = list(steps)

    def reply(messages, tools, tool_choice, config):
        asked.append((messages, tools, tool_choice, config))
        step = left.pop(0)
        step = step(messages) if isinstance(step, Callable) else step
        if isinstance(step, str):
            step = ModelOutput.from_content("mock", step)
        step.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return step

    return get_model("mockllm/model", custom_outputs=reply)


def use(name, **arguments):
    return ModelOutput.for_tool_call("mock", name, arguments)


def run(agent, llm, *, before=(), sample=None, approval=None, own_model=False, **limits):
    """Run one sample, and return its log."""
    asked.clear()
    solver = chain([*before, as_solver(agent, own_model=own_model)])
    task = Task(
        dataset=[sample or Sample("What is it?", target="42")],
        solver=solver,
        scorer=includes(),
        approval=approval,
        **limits,
    )
    [log] = run_tasks(task, model=llm, display="none", log_dir="logs", fail_on_error=False)
    [found] = log.samples
    return found


@tool
def lookup():
    async def execute(word: str) -> str:
        """Look a word up.

        Args:
            word: the word.
        """
        if word == "missing":
            raise ToolError("there is no such word")
        if word == "broken":
            raise RuntimeError("the book is on fire")
        return f"{word} is 42"

    return execute


def answer() -> int:
    """Return the answer."""
    return 42


PLAIN = Agent("anthropic:claude-sonnet-5-5", instructions="Be brief.", tools=[answer], name="plain")


def check_the_model_of_the_task_answers():
    found = run(PLAIN, model(use("answer"), lambda messages: f"It is {messages[-1].text}."))
    assert found.output.completion == "It is 42.", found.error
    assert found.scores["includes"].value == "C"
    assert [each.role for each in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.model_usage["mockllm/model"].total_tokens == 30
    assert found.store["greenroom"]["steps"] == 2
    messages, tools, *_ = asked[1]
    assert [each.role for each in messages] == ["system", "user", "assistant", "tool"]
    assert messages[0].text == "Be brief."
    assert tools[0].name == "answer"


def check_tools_of_the_task_are_run_by_inspect():
    llm = model(use("lookup", word="it"), use("lookup", word="missing"), "42")
    found = run(PLAIN, llm, before=[use_tools(lookup())])
    results = [each for each in found.messages if each.role == "tool"]
    assert results[0].text == "it is 42", found.error
    assert results[1].error.message == "there is no such word"
    assert [each.function for each in found.events if each.event == "tool"] == ["lookup"] * 2
    assert {each.name for each in asked[0][1]} == {"answer", "lookup"}


def check_approval_policies_hold():
    policies = [ApprovalPolicy(auto_approver("reject"), "lookup")]
    found = run(
        PLAIN,
        model(use("lookup", word="it"), "no"),
        before=[use_tools(lookup())],
        approval=policies,
    )
    [result] = [each for each in found.messages if each.role == "tool"]
    assert result.error is not None
    assert found.output.completion == "no"


def check_a_tool_that_breaks_fails_the_sample():
    llm = model(use("lookup", word="broken"), "never")
    found = run(PLAIN, llm, before=[use_tools(lookup())])
    assert "the book is on fire" in found.error.message
    assert "RuntimeError" in found.error.traceback
    assert [each.role for each in found.messages][:2] == ["user", "assistant"]


def check_limits_end_a_sample_and_what_was_said_is_kept():
    def steps():
        return [use("answer") for _ in range(20)]

    found = run(PLAIN, model(*steps()), token_limit=40)
    assert found.limit.type == "token", found.error
    assert len([each for each in found.messages if each.role == "assistant"]) >= 2
    assert len(asked) == 3
    found = run(PLAIN, model(*steps()), message_limit=6)
    assert (found.limit.type, found.error) == ("message", None)
    assert len(asked) <= 3


def check_the_time_limit_cancels_the_agent():
    async def wait(text: str = "") -> str:
        """Wait."""
        import trio

        await trio.sleep(60)
        return text

    slow = Agent("offline:", tools=[wait], name="slow")
    found = run(slow, model(use("wait")), time_limit=1)
    assert (found.limit.type, found.error) == ("time", None)
    assert found.messages[-1].role in ("user", "tool")


def check_own_models_keep_to_the_limits():
    def own(times):
        llm = ScriptedProvider(*[call("answer")] * times, "42", price=Price(1_000_000, 0))
        return Agent(llm, tools=[answer], max_steps=20, name="own")

    never = model()
    found = run(own(1), never, own_model=True)
    assert found.output.completion == "42", found.error
    assert found.output.usage.total_tokens == 30
    assert not asked
    assert run(own(9), never, own_model=True, message_limit=5).limit.type == "message"
    assert run(own(9), never, own_model=True, token_limit=40).limit.type == "token"


def check_the_beginning_of_a_sample_is_the_conversation():
    sample = Sample(
        [
            ChatMessageUser(content="I am Ann."),
            ChatMessageAssistant(
                content="Hello!", tool_calls=[ToolCall(id="1", function="x", arguments={})]
            ),
            ChatMessageUser(content="Who am I?"),
        ],
        target="Ann",
    )
    found = run(PLAIN, model("Ann"), before=[system_message("Be kind.")], sample=sample)
    assert found.scores["includes"].value == "C", found.error
    [(messages, *_)] = asked
    assert messages[0].text == "Be kind.\n\nBe brief."
    assert messages[1].text == "I am Ann."
    assert messages[-1].text == "Who am I?"
    assert [each.role for each in found.messages].count("assistant") == 2


def check_what_a_provider_wants_back_is_passed_on():
    thought = ContentReasoning(reasoning="hm", signature="signed", internal={"id": 7})
    reply = ChatMessageAssistant(
        content=[thought, ContentText(text="Let me see.", internal={"id": 8})],
        tool_calls=[ToolCall(id="1", function="answer", arguments={})],
    )
    output = ModelOutput.from_message(reply, "tool_calls")
    run(PLAIN, model(output, "42"))
    [passed] = [each for each in asked[1][0] if each.role == "assistant"]
    assert passed.content[0].internal == {"id": 7}
    assert passed.content[1].internal == {"id": 8}


def check_a_value_and_a_team():
    class Line(BaseModel):
        word: str
        parent: "Line | None" = None

    typed = Agent("offline:", output_type=Line, name="typed")
    found = run(typed, model(lambda messages: use(asked[-1][1][0].name, word="42")))
    assert found.output.completion == '{"word":"42","parent":null}', found.error
    assert asked[0][1][0].parameters.properties["parent"].anyOf
    team = pipeline(*[Agent("offline:", name=name) for name in ("one", "two")], name="team")
    found = run(team, model("a draft", lambda messages: f"{messages[-1].text} of 42"))
    assert found.output.completion == "a draft of 42", found.error
    found = run(team, model(), before=[use_tools(lookup())])
    assert "several agents" in found.error.message


def check_an_error_of_the_model_is_inspect_s():
    def fail(messages):
        raise ValueError("the model is ill")

    found = run(PLAIN, model(fail))
    assert "the model is ill" in found.error.message


def check_asyncio_is_refused_with_what_to_do():
    os.environ["INSPECT_ASYNC_BACKEND"] = "asyncio"
    found = run(PLAIN, model("42"))
    assert "INSPECT_ASYNC_BACKEND=trio" in found.error.message
    assert "ConfigurationError" in found.error.traceback
    assert issubclass(ConfigurationError, Exception)


if __name__ == "__main__":
    names = [name for name in dict(globals()) if name.startswith("check_")]
    for name in names:
        print(name, flush=True)
        globals()[name]()
    sys.exit(0 if len(names) > 10 else 1)
