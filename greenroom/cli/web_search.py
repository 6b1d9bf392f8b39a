"""The search engine of the setting `web_search`, as a tool of a run."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from greenroom.core import ConfigurationError
from greenroom.llm._internal import read_key

if TYPE_CHECKING:
    from greenroom.tools import WebSearch


class WebSearchSettings(msgspec.Struct, frozen=True):
    """What searches the web: the kind of engine, its address, the variable that holds the key.

    Attributes:
        backend: the engine.
        url: its address; empty for the vendor's own.
        key_env: the variable of the environment that holds the key; empty for an engine without.
    """

    backend: Literal["searxng", "brave", "tavily"]
    url: str = ""
    key_env: str = ""

    def check(self) -> None:
        """Check that it could be opened if it had its key.

        Raises:
            ConfigurationError: the address can't be used.
        """
        self._open("key")

    def open(self, env: Mapping[str, str]) -> "WebSearch":
        """Open the tool, with the key that the variable holds, or the file in `NAME_FILE`.

        Raises:
            ConfigurationError: there is no key, or it can't be used.
        """
        key = read_key(env, self.key_env) if self.key_env else ""
        if self.key_env and not key:
            raise ConfigurationError(
                f"{self.key_env} is not set, which holds the key of {self.backend}",
                hint=f"set it, or name a file with the key in {self.key_env}_FILE",
            )
        return self._open(key)

    def _open(self, key: str) -> "WebSearch":
        from greenroom.tools import WebSearch  # few users have set it up

        given = {"url": self.url} if self.url else {}
        match self.backend:
            case "searxng":
                return WebSearch.searxng(self.url)
            case "brave":
                return WebSearch.brave(key, **given)
            case "tavily":
                return WebSearch.tavily(key, **given)
