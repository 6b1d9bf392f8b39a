"""`!command`: a command that the person runs, in the session's sandbox, without being asked.

What a rule denies does not run. The command and its output go to the model with the next input.
"""

import msgspec
import trio

from greenroom.core import AgentContext, RuleDecision, ToolResult
from greenroom.permissions import PermissionManager
from greenroom.tools import ToolRegistry


class OwnCommand(msgspec.Struct, frozen=True):
    """A command that a person has run, and what came of it."""

    command: str
    result: ToolResult

    @property
    def for_model(self) -> str:
        """What the model reads about it."""
        return f"I ran this command myself:\n$ {self.command}\n{self.result.text}".rstrip()


async def run_own_command(
    command: str, tools: ToolRegistry, permissions: PermissionManager, context: AgentContext
) -> OwnCommand:
    """Run a command as the person; a cancel ends it, with everything that it has started."""
    bash = tools.get("Bash")
    arguments: dict[str, object] = {"command": command}
    if bash is None:
        return OwnCommand(command, ToolResult.error("this run has no Bash"))
    verdict = await trio.to_thread.run_sync(lambda: permissions.judge(bash, arguments, context))
    rule = verdict.rule
    if rule is not None and verdict.decision is RuleDecision.DENY:
        return OwnCommand(command, ToolResult.error(f"not run: the rule {rule} denies it"))
    return OwnCommand(command, await tools.execute("Bash", arguments, context))
