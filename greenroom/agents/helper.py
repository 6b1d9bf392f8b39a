"""Helpers: named subagents with prompts of their own, perhaps fewer tools and another model."""

import msgspec

from greenroom.core import AgentContext, RuleDecision
from greenroom.llm import LLMProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.tools import ToolRegistry


class Helper(msgspec.Struct, frozen=True):
    """A subagent that `Task` can name.

    Attributes:
        name: its name.
        description: when to give it work, for the model.
        prompt: its system prompt.
        tools: the tools that it has, as names or as rules such as "Bash(git diff:*)"; empty for all
            of the parent's. A rule keeps its tool to what the rule is about.
        llm: its model; None for the parent's.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] = ()
    llm: LLMProvider | None = None

    def narrow(
        self, tools: ToolRegistry, permissions: PermissionManager, context: AgentContext
    ) -> tuple[ToolRegistry, PermissionManager]:
        """Return its tools and its rules, neither of which is wider than the parent's."""
        if not self.tools:
            return tools, permissions.child(context=context)
        rules = [PermissionRule.parse(each, RuleDecision.ALLOW) for each in self.tools]
        names = {each.partition("(")[0] for each in self.tools}
        found = [tools.get(name) for name in tools.list_tools() if name in names]
        below = permissions.child(rules, context=context)
        below.mode = "deny"  # what its file does not name, it does not do
        return ToolRegistry([each.tool for each in found if each is not None]), below
