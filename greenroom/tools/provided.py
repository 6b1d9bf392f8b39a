"""The tools of providers, registered as they come, and merged with those of a registry."""

import logging
from collections.abc import Iterator, Mapping

from greenroom.core import ToolError
from greenroom.core._internal import portable_name
from greenroom.tools.execution import RegisteredTool
from greenroom.tools.interface import Tool, ToolProvider

_log = logging.getLogger("greenroom.tools")
_MOST_TOLD = 1_000  # names of which a provider is remembered to have been warned


class ProvidedTools:
    """Registers what a provider has, each tool once as long as it is the same object."""

    def __init__(self, provider: ToolProvider) -> None:
        self.provider = provider
        self._listed: tuple[Tool, ...] = ()
        self._registered: tuple[RegisteredTool, ...] = ()
        self._known: dict[int, RegisteredTool | None] = {}
        self._told: set[str] = set()

    def read(self) -> tuple[RegisteredTool, ...]:
        """Return the tools that there are now; the same tuple as long as they are the same."""
        listed, before = tuple(self.provider.tools()), self._listed
        is_same = listed is before or (
            len(listed) == len(before)
            and all(new is old for new, old in zip(listed, before, strict=True))
        )
        if not is_same:
            # The old objects live until here, so that no new one has the identity of an old one.
            known = self._known
            self._known = {
                id(each): known[id(each)] if id(each) in known else self._register(each)
                for each in listed
            }
            self._listed = listed
            self._registered = tuple(each for each in self._known.values() if each is not None)
        return self._registered

    def _register(self, tool: Tool) -> RegisteredTool | None:
        try:
            return RegisteredTool.of(tool)
        except ToolError as error:
            self.leave_out(str(getattr(tool, "name", type(tool).__name__)), error.message)
            return None

    def leave_out(self, name: str, why: str) -> None:
        """Warn that a tool is left out, once for each name."""
        if name not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(name)
            _log.warning("the tool %.100r of %r is left out: %s", name, self.provider, why)


class MergedTools:
    """The tools of several providers behind those of a registry, whose names none of them takes."""

    def __init__(self) -> None:
        self._providers: list[ProvidedTools] = []
        self._own: Mapping[str, RegisteredTool] = {}
        self._read: list[tuple[RegisteredTool, ...]] = []
        self._merged: dict[str, RegisteredTool] = {}

    def __bool__(self) -> bool:
        return bool(self._providers)

    def __iter__(self) -> Iterator[ToolProvider]:
        return iter([each.provider for each in self._providers])

    def add(self, provider: ToolProvider) -> None:
        """Add a provider, unless it is there already."""
        if all(each.provider is not provider for each in self._providers):
            self._providers.append(ProvidedTools(provider))

    def merge(self, own: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        """Return these tools and those that the providers have now, each under its name."""
        read = [each.read() for each in self._providers]
        is_same = len(read) == len(self._read) and all(map(_is, read, self._read))
        if not is_same or own != self._own:
            self._own, self._read = dict(own), read
            self._merged = self._merge(own)
        return self._merged

    def _merge(self, own: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        found = dict(own)
        origins: dict[str, object] = dict.fromkeys(map(portable_name, own), "the registry")
        for provider, tools in zip(self._providers, self._read, strict=True):
            for each in tools:
                wanted = portable_name(each.name)
                if wanted in origins:
                    provider.leave_out(each.name, f"{origins[wanted]} has a tool of that name")
                    continue
                found[each.name], origins[wanted] = each, provider.provider
        return found


def _is(one: object, other: object) -> bool:
    return one is other
