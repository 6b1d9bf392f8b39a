"""`AskPerson`: a question of the model to the person, whose answer is the call's result."""

from typing import cast

from greenroom.core import AgentContext, Answer, ToolError, ToolInfo, ToolResult, ToolStatus, clip
from greenroom.runtime import AgentInternals

_MOST = 30_000  # characters of an answer


class AskPerson:
    """Ask the person something in words, and wait for the answer.

    It is asked like a permission, before anything of the reply runs: as a `PermissionRequest` with
    `options`, in the terminal or wherever `handle.respond_permission` is called. An answer is "allow"
    with the person's words as its message; without any it means yes. So the question survives the
    process, an interrupt withdraws it, and an answer that comes late is not accepted. It is
    denied, and the model gets the reason, if no one can answer, at the time-out, or if a rule denies the tool.

    Args:
        timeout: seconds until the question counts as unanswered; `math.inf` for none.

    Example:
        ```python
        tools = ToolRegistry([*builtin_tools(), AskPerson()])
        # … and where a request arrives that has `options`:
        await handle.respond_permission(request.request_id, "allow", message="the blue one")
        ```
    """

    name = "AskPerson"
    category = "person"
    description = (
        "Ask the user a question that only they can answer, such as which of several ways they want,"
        " and wait. Give options where a few answers are likely; the user may answer in other words."
        " Do not ask what you can find out yourself, and do not ask for passwords or keys."
    )
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4000,
                "description": "The whole question: the user may not remember what came before.",
            },
            "options": {
                "type": "array",
                "maxItems": 9,
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "description": "Likely answers, the one that you would choose first.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    }
    requires_permission = False  # to ask is to do nothing; a rule may deny it

    def __init__(self, timeout: float = 300.0) -> None:
        """Take the time that a person has for an answer."""
        if not timeout > 0:
            raise ToolError(f"the time-out is {timeout!r}", hint="give seconds, more than 0")
        self._patience = timeout

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the question, and the options by their numbers."""
        options = [f"{number}. {each}" for number, each in enumerate(_options(input), 1)]
        return ToolInfo("Answer a question", "\n".join([str(input["question"]), *options]))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Refuse: a question is asked by `run_tools`, which has the agent that asks.

        Raises:
            ToolError: always.
        """
        raise ToolError("there is nobody to ask here", hint="run the calls with run_tools")

    async def ask(
        self,
        agent: AgentInternals,
        input: dict[str, object],  # noqa: A002
        tool_use_id: str,
        digest: str,
    ) -> Answer:
        """Ask for one call; its answer is bound to the digest, as that to a permission is."""
        info = self.info(input)
        return await agent.request_permission(
            self.name,
            info.action,
            details=info.details,
            input=input,
            options=_options(input),
            digest=digest,
            tool_use_id=tool_use_id,
            timeout=self._patience,
        )

    def result(self, input: dict[str, object], answer: Answer) -> ToolResult:  # noqa: A002
        """Return what the model is told; a number means the option that has it."""
        words = clip(answer.message.strip(), _MOST)
        if answer.allowed:
            options = _options(input)
            number = int(words) if words.isascii() and words.isdigit() and len(words) == 1 else 0
            return ToolResult.ok(
                options[number - 1] if 0 < number <= len(options) else words or "yes"
            )
        if answer.by == "user":
            text = f"The user does not want to answer. {words}".rstrip()
        else:
            text = f"There is no answer: {words or answer.by}."
        return ToolResult.error(text, ToolStatus.DENIED)


def _options(input: dict[str, object]) -> tuple[str, ...]:  # noqa: A002
    """Return the options of an input that has been validated."""
    return tuple(cast("list[str]", input.get("options", [])))
