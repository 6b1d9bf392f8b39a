"""What crosses between tools, models and prompts: definitions, descriptions and results."""

from enum import StrEnum

from msgspec.structs import replace

from greenroom.core.content import ResultContent, TextBlock, ToolResultBlock
from greenroom.core.failure import MAX_ERROR_TEXT
from greenroom.core.text import clip, valid_unicode
from greenroom.core.wire import Wire


class ToolDefinition(Wire, frozen=True):
    """What a model is told of a tool.

    Attributes:
        name: what it is called here, in rules, chunks and histories; a model may know it by its
            `portable_name`.
        description: what it does.
        parameters: a JSON Schema of its input.
        extra: fields of the provider's own that have no typed place here, such as
            `{"defer_loading": True}`; they are sent to any provider.
    """

    name: str
    description: str
    parameters: dict[str, object]
    extra: dict[str, object] = {}


def portable_name(name: str) -> str:
    """Return a tool's name as models call it: few of their APIs take dots, so each becomes `__`.

    Two names that become the same can't be told apart in a reply; registries and providers refuse that.

    Example:
        >>> portable_name("fs.read")
        'fs__read'
    """
    return name.replace(".", "__")


class ToolInfo(Wire, frozen=True):
    """What a person is told of one call before it runs.

    Attributes:
        action: one line, such as "Run a command".
        details: the exact text that will run, be written or be fetched.
        diff: a unified diff where a file would change, else empty.
        claim: what the model itself says of the call, or empty; nothing vouches for it.
    """

    action: str
    details: str = ""
    diff: str = ""
    claim: str = ""


class ToolStatus(StrEnum):
    """How a call ended."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


class ToolResult(Wire, frozen=True):
    r"""What a call gave: content for the model, how it ended, and facts for programs.

    Attributes:
        content: text, images and documents, in order.
        status: how the call ended; everything but success is an error to the model.
        metadata: JSON facts for programs, such as an exit code; the model does not see them.
        error_message: what went wrong, for programs and logs, apart from what the model is told; empty
            on success. A registry fills it in, and cuts it to 2,000 characters.
        could_run: False where the call came to nothing: no such tool, an input that does not fit, a
            crash, a denial. A command that exits with 1 could run.

    Example:
        >>> result = ToolResult.error("no such file\nThe folder has: a.txt, b.txt")
        >>> result.is_error, result.error_message
        (True, 'no such file')
    """

    content: tuple[ResultContent, ...] = ()
    status: ToolStatus = ToolStatus.SUCCESS
    metadata: dict[str, object] = {}
    error_message: str = ""
    could_run: bool = True

    @classmethod
    def ok(cls, text: str, **metadata: object) -> "ToolResult":
        """Make a successful result of a text."""
        return cls((TextBlock(valid_unicode(text)),), ToolStatus.SUCCESS, metadata)

    @classmethod
    def error(
        cls,
        text: str,
        status: ToolStatus = ToolStatus.ERROR,
        *,
        error_message: str = "",
        could_run: bool = True,
        **metadata: object,
    ) -> "ToolResult":
        """Make a failed result that tells the model what went wrong and what to do.

        Its `error_message` is by default the first line of that.
        """
        content = (TextBlock(valid_unicode(text)),)
        made = cls(content, status, metadata, error_message, could_run)
        return made.with_error_message()

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call failed."""
        return self.status is not ToolStatus.SUCCESS

    @property
    def text(self) -> str:
        """The result's text, its text blocks joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def with_error_message(self) -> "ToolResult":
        """Return the same result, which if it failed says so in an `error_message` of moderate length."""
        message = self.error_message
        if self.is_error and not message:
            message = self.text.lstrip().partition("\n")[0].rstrip() or str(self.status)
        return replace(self, error_message=clip(valid_unicode(message), MAX_ERROR_TEXT))

    def block(self, tool_use_id: str) -> ToolResultBlock:
        """Make the block that answers the call of this id in the next message."""
        return ToolResultBlock(tool_use_id, self.content, self.is_error)
