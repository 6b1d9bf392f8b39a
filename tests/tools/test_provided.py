"""Providers of tools: what they have at each moment, and never in place of another tool."""

import logging

import pytest

from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.tools import ToolProvider, ToolRegistry, tool


def make(name: str, text: str = ""):
    @tool(name=name)
    async def function() -> str:
        return text or name

    return function


class Provider:
    def __init__(self, *tools: object) -> None:
        self.now = list(tools)

    def tools(self):
        return self.now

    def __repr__(self) -> str:
        return "the provider"


async def run(registry: ToolRegistry, name: str) -> ToolResult:
    return await registry.execute(name, {}, AgentContext(session_id="s", agent_type="demo"))


async def test_a_registry_sees_what_the_provider_has_now() -> None:
    provider = Provider(make("one"))
    registry = ToolRegistry([make("own")])
    registry.add(provider)
    above = registry.with_tools(make("top"))
    assert registry.list_tools() == ("own", "one")
    provider.now = [make("two")]
    assert registry.list_tools() == ("own", "two")
    assert [each.name for each in registry.definitions()] == ["own", "two"]
    assert above.list_tools() == ("own", "two", "top")
    assert (await run(above, "two")).text == "two"
    assert (await run(registry, "one")).metadata["error"] == "UnknownToolError"
    registry.register(make("late"))
    assert registry.list_tools() == ("own", "late", "two")


def test_an_unchanged_tool_stays_the_same_registered_tool() -> None:
    one, provider = make("one"), Provider()
    provider.now = [one]
    registry = ToolRegistry()
    registry.add(provider)
    registry.add(provider)  # a second time changes nothing
    before = registry.get("one")
    provider.now = [make("zero"), one]
    assert registry.get("one") is before
    provider.now = [make("one")]
    assert registry.get("one") is not before


async def test_nothing_of_a_provider_takes_the_name_of_another_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Provider(make("a__b", "first")), Provider(make("a__b", "second"))
    registry = ToolRegistry([make("own", "ours")])
    for each in (Provider(make("own", "theirs"), make("own", "again")), first, second):
        registry.add(each)
    with caplog.at_level(logging.WARNING, "greenroom.tools"):
        assert registry.list_tools() == ("own", "a__b")
        registry.register(make("c"))
        assert registry.list_tools() == ("own", "c", "a__b")
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "the tool 'own' of the provider is left out: the registry has a tool of that name",
        "the tool 'a__b' of the provider is left out: the provider has a tool of that name",
    ]
    assert (await run(registry, "own")).text == "ours"
    assert (await run(registry, "a__b")).text == "first"


def test_names_that_are_one_to_a_model_clash(caplog: pytest.LogCaptureFixture) -> None:
    registry = ToolRegistry([make("a.b")])
    registry.add(Provider(make("a__b"), make("c.d"), make("c__d")))
    with caplog.at_level(logging.WARNING, "greenroom.tools"):
        assert registry.list_tools() == ("a.b", "c.d")
    assert len(caplog.records) == 2


def test_an_unusable_tool_is_left_out_and_the_others_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = ToolRegistry()
    registry.add(Provider(make("one"), 3, make("two")))
    with caplog.at_level(logging.WARNING, "greenroom.tools"):
        assert registry.list_tools() == ("one", "two")
        assert registry.list_tools() == ("one", "two")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("thing", [3, make("one"), Provider])
def test_what_provides_nothing_is_refused(thing: object) -> None:
    with pytest.raises(ToolError, match="provides no tools"):
        ToolRegistry().add(thing)  # type: ignore[arg-type]


def test_many_tools_are_not_compared_again_and_again() -> None:
    provider = Provider()
    provider.now = tuple(make(f"t{number}") for number in range(50))  # type: ignore[assignment]
    registry = ToolRegistry([make("own")])
    registry.add(provider)
    assert registry._all() is registry._all()
    assert isinstance(provider, ToolProvider)
