"""Substitutes: resources that answer in place of a model or a tool, as a replay or a cache does."""

from typing import ClassVar

from greenroom.core import AgentContext, ToolError, ToolResult, ToolRun, ToolUseBlock
from greenroom.core._internal import serde
from greenroom.llm.provider import LLMProvider


class Substitutes:
    """Answers in place of a model or a tool: derive a class, and write either method or both.

    Insert an instance into the resources of a runtime or an agent. Several form a chain, those of
    the agent first, in the order in which they were inserted: the first answer wins.

    Example:
        >>> import trio
        >>> from greenroom import Agent, AgentRuntime, InMemoryStore
        >>>
        >>> from greenroom.testing import ScriptedProvider
        >>> class Script(Substitutes):
        ...     def __init__(self, *steps):
        ...         self.llm = ScriptedProvider(*steps)
        ...
        ...     def model(self, agent, llm):
        ...         return self.llm
        >>> async def main():
        ...     async with AgentRuntime(InMemoryStore()) as runtime:
        ...         runtime.resources.insert(Script("As it was."))
        ...         print((await Agent("offline:").run("How was it?", runtime=runtime)).text)
        >>> trio.run(main)
        As it was.
    """

    resource_type: ClassVar[type]
    """The class under which a `ResourceMap` holds every substitute: this one."""

    def model(self, agent: AgentContext, llm: LLMProvider) -> LLMProvider | None:
        """Return the model to ask in place of `llm`, or None to leave it at that.

        It is called before each model call of an agent.
        """
        return None

    async def result(self, agent: AgentContext, call: ToolUseBlock) -> ToolResult | None:
        """Return the result of a call in place of running its tool, or None to let it run.

        It is asked about each call of `run_tools` that is valid and allowed, before the gates'
        `before_run`, since nothing runs. An exception is the result of the call, as a tool's is.
        """
        return None


Substitutes.resource_type = Substitutes


def substitute_model(agent: AgentContext, llm: LLMProvider) -> LLMProvider:
    """Return the model that an agent asks in place of this one, which may be the same."""
    for each in agent.resources.get_all(Substitutes):
        found = each.model(agent, llm)
        if found is not None:
            return found
    return llm


async def substitute_result(agent: AgentContext, call: ToolRun) -> ToolResult | None:
    """Return the result that stands in for a call, or None if its tool has to run.

    Each substitute gets a snapshot of the agent's context.

    Raises:
        ToolError: a substitute returned something else.
    """
    for each in agent.resources.get_all(Substitutes):
        block = ToolUseBlock(call.id, call.name, call.input)
        found: object = await each.result(agent.snapshot(), block)
        if found is None:
            continue
        if not isinstance(found, ToolResult):
            kind = type(found).__name__
            raise ToolError(f"{type(each).__name__} returned {kind}, which is not a ToolResult")
        return serde.decode(serde.encode(found), ToolResult).with_error_message()
    return None
