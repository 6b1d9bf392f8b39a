"""Credentials of a call: the person is asked for those that are missing, before it runs."""

from greenroom.core import AgentContext, Credential, ToolResult, ToolStatus, ToolUseBlock
from greenroom.runtime import AgentInternals
from greenroom.tools import RegisteredTool


async def ask_credentials(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    context: AgentContext,
    digest: str,
) -> ToolResult | None:
    """Ask for the credentials that a call lacks; return why it can't run, or None."""
    for credential in tool.credentials:
        if credential.find(context) is None:
            refusal = await _ask(agent, call, tool, credential, context, digest)
            if refusal is not None:
                return refusal
    return None


async def _ask(
    agent: AgentInternals,
    call: ToolUseBlock,
    tool: RegisteredTool,
    credential: Credential,
    context: AgentContext,
    digest: str,
) -> ToolResult | None:
    answer = await agent.request_permission(
        tool.name,
        f"Give the credential {credential.name}",
        details=credential.hint,
        reason=f"{tool.name} needs it, and it is kept from the model and from every file",
        credential=credential.name,
        # Other than that of the call, so that a yes to one of the questions is none to the other.
        digest=f"{digest} {credential.name}",
        tool_use_id=call.id,
    )
    if answer.allowed and credential.find(context) is not None:
        return None
    why = "was not given" + (f": {answer.message}" if answer.message else "")
    return ToolResult.error(
        f"{tool.name} was not run: the credential {credential.name} {why}.", ToolStatus.DENIED
    )
