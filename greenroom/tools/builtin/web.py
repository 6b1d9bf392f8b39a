"""`WebFetch`: the text of a web page."""

from collections.abc import Mapping

from greenroom.core import AgentContext, NetworkError, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import Effect, usual_effects
from greenroom.schemas._internal import read_integer

_DEFAULT_CHARACTERS = 20_000


class WebFetch:
    """Fetches a page by GET and gives the model its text.

    Hosts of the local machine and network are refused, after the name look-up and again after each
    redirect, and the connection goes to the very address that was checked. A proxy connects by
    itself, so it has to judge the names that only it can look up. A redirect to another host is
    reported to the model and not followed. At most 2,000,000 bytes are read.
    """

    name = "WebFetch"
    description = (
        "Fetch a web page or text file by its URL and return its text; HTML comes as plain text"
        " with links. Only http and https, only public hosts. If it answers that the page has moved"
        " to another host, call it again with that URL."
    )
    category = "network"
    read_only = True
    concurrent = True
    timeout = 60.0
    parameters: Mapping[str, object] = {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "The absolute URL, http or https."},
            "max_characters": {
                "type": "integer",
                "minimum": 1,
                "description": "Return this much text at the most "
                f"(default {_DEFAULT_CHARACTERS}).",
            },
        },
        "required": ["url"],
        "additionalProperties": False,
    }

    def __init__(self, *, allow_private: bool = False) -> None:
        """Fetch public pages only, or with `allow_private` those of the local network as well."""
        self._allow_private = allow_private

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the URL."""
        return ToolInfo("Fetch a web page", str(input["url"]))

    def effects(self, input: dict[str, object], context: AgentContext) -> tuple[Effect, ...]:  # noqa: A002
        """State the host; no redirect leads to another."""
        return usual_effects("WebFetch", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Fetch the page.

        Raises:
            ToolError: the URL is refused, the host can't be reached, or the page is not text.
        """
        from greenroom.tools.builtin.web_page import fetch

        limit = read_integer(input, "max_characters", _DEFAULT_CHARACTERS)
        try:
            return await fetch(str(input["url"]), limit, allow_private=self._allow_private)
        except NetworkError as error:
            raise ToolError(error.message, hint=error.hint) from error
