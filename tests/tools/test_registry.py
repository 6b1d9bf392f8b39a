"""The registry: what may be registered, and what it tells of the tools it holds."""

import sys

import pytest

from greenroom.core import AgentContext, Opaque, ReadPath, ToolError, ToolInfo, ToolResult
from greenroom.tools import ToolRegistry, tool
from greenroom.tools._internal import RegisteredTool


class Shout:
    name = "Shout"
    description = "Return the text in capitals."
    category = "read"
    parameters = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }

    def info(self, input):
        return ToolInfo("Shout", input["text"])

    async def execute(self, input, context):
        return ToolResult.ok(input["text"].upper())


MEMBERS = ("name", "description", "category", "parameters", "info", "execute")


def variant(**members):
    return type("Shout", (Shout,), members)()


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="test")


def test_six_members_and_no_base_class_make_a_tool():
    registered = ToolRegistry([Shout()]).get("Shout")
    assert isinstance(registered, RegisteredTool)
    assert registered.requires_permission is True
    assert registered.timeout == 30.0
    assert registered.concurrent is True  # of the category "read"
    assert ToolRegistry([variant(category="other")]).get("Shout").concurrent is False
    assert registered.effects({}, None) == ()
    assert registered.fault({"text": "a"}) is None
    assert "'text' is missing" in registered.fault({})


def test_a_schema_that_changes_later_changes_nothing():
    parameters = {"type": "object", "properties": {}}
    registry = ToolRegistry([variant(parameters=parameters)])
    parameters["properties"]["a"] = {"type": "string"}
    assert registry.definitions()[0].parameters == {"type": "object", "properties": {}}


def test_tools_of_one_name_and_schema_share_what_it_is_compiled_to():
    one, other = (ToolRegistry([Shout()]).get("Shout") for _ in range(2))
    assert one.validator is other.validator
    assert one.tool is not other.tool
    renamed = ToolRegistry([variant(name="Whisper")]).get("Whisper")
    assert renamed.fault({}).startswith("Whisper was not run")
    free = ToolRegistry([variant(parameters=Shout.parameters | {"required": []})]).get("Shout")
    assert free.fault({}) is None
    assert "'text' is missing" in one.fault({})


def test_a_long_schema_is_kept_no_longer_than_its_tool():
    long = Shout.parameters | {"description": "x" * 10_000}
    one, other = (ToolRegistry([variant(parameters=long)]).get("Shout") for _ in range(2))
    assert one.validator is not other.validator
    assert one.parameters == other.parameters == long


@pytest.mark.parametrize("member", MEMBERS)
def test_a_missing_member_is_named(member):
    members = {name: value for name, value in vars(Shout).items() if name in MEMBERS}
    del members[member]
    with pytest.raises(ToolError, match=f"it has no {member}"):
        ToolRegistry([type("Partial", (), members)()])


def test_a_class_or_a_bare_function_is_told_what_to_do():
    async def add(a: int) -> int:
        return a

    with pytest.raises(ToolError, match=r"Shout is a class, not a tool \(register Shout\(\)\)"):
        ToolRegistry([Shout])
    with pytest.raises(ToolError, match=r"add is not a tool.*decorate the function with @tool"):
        ToolRegistry([add])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": ""}, "'' is not a name for a tool"),
        ({"name": "a b"}, "'a b' is not a name"),
        ({"name": "x" * 65}, "is not a name"),
        ({"name": "naïve"}, "is not a name"),
        ({"name": 3}, "is not a name"),
        ({"description": None}, "its description is not text"),
        ({"category": 3}, "its category is not text"),
        ({"info": "text"}, "its info can't be called"),
        ({"execute": None}, "its execute can't be called"),
        ({"parameters": []}, "not a JSON Schema object"),
        ({"timeout": 0}, "its timeout is 0"),
        ({"timeout": "1"}, "its timeout is '1'"),
        ({"timeout": True}, "its timeout is True"),
        ({"timeout": float("nan")}, "its timeout is nan"),
        ({"parameters": {"type": "array"}}, "not of type object"),
        ({"parameters": {"type": "object", "default": object()}}, "its schema is not JSON"),
        (
            {"parameters": {"type": "object", "properties": {"a": {"type": "text"}}}},
            r"the schema is broken at properties\.a\.type: 'text'",
        ),
        (
            {"parameters": {"type": "object", "properties": {"a": {"pattern": 3}}}},
            r"broken at properties\.a\.pattern",
        ),
        (
            {"parameters": {"type": "object", "properties": {"a": {"$ref": "#/$defs/B"}}}},
            r"points to '#/\$defs/B', which it does not hold \(put the schema",
        ),
        (
            {"parameters": {"type": "object", "allOf": [{"$ref": "http://127.0.0.1:9/s"}]}},
            "points to 'http://127",
        ),
        (
            {"parameters": {"type": "object", "items": {"$dynamicRef": "http://127.0.0.1:9/s"}}},
            "points to 'http://127",
        ),
    ],
)
def test_a_member_of_no_use_is_refused_with_its_reason(members, message):
    with pytest.raises(ToolError, match=message):
        ToolRegistry([variant(**members)])


def test_a_reference_within_the_schema_is_sound():
    parameters = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "$ref": {"type": "string"}},
        "$defs": {"A": {"type": "integer"}},
    }
    assert ToolRegistry([variant(parameters=parameters)]).list_tools() == ("Shout",)


def test_a_name_is_registered_once_unless_replaced():
    registry = ToolRegistry([Shout(), variant(name="Other")])
    with pytest.raises(ToolError, match=r"Shout is already registered \(give one another name"):
        registry.register(Shout())
    registry.register(variant(category="write"), replace=True)
    assert registry.list_tools() == ("Shout", "Other")
    assert registry.get_category("Shout") == "write"


def test_look_ups_of_what_is_not_there_give_none():
    registry = ToolRegistry()
    assert (registry.get("x"), registry.get_category("x")) == (None, None)
    assert (registry.list_tools(), registry.definitions()) == ((), ())


def test_definitions_stand_in_the_order_of_names_whatever_came_first():
    registry = ToolRegistry([variant(name=name) for name in ("c", "a", "b")])
    assert [definition.name for definition in registry.definitions()] == ["a", "b", "c"]
    assert registry.definitions()[0].parameters == Shout.parameters
    assert registry.definitions() == registry.definitions()


@pytest.mark.checkpoint("1.1 registration at run time")
async def test_a_tool_registered_while_agents_run_is_there_at_once(context):
    registry = ToolRegistry()
    assert (await registry.execute("Shout", {"text": "a"}, context)).is_error
    registry.register(Shout())
    assert (await registry.execute("Shout", {"text": "a"}, context)).text == "A"
    assert registry.list_tools() == ("Shout",)
    assert len(registry.definitions()) == 1


async def test_a_registered_tool_can_go_into_another_registry(context):
    first = ToolRegistry([Shout()])
    second = ToolRegistry([first.get("Shout")])
    assert second.get("Shout") is first.get("Shout")
    assert (await second.get("Shout").execute({"text": "a"}, context)).text == "A"


def test_info_shows_what_would_hide():
    info = variant(info=lambda _, input: ToolInfo("Run\n\u00a0now", input["text"], "+\x1b[2K"))
    registry = ToolRegistry([info])
    shown = registry.info("Shout", {"text": "a\u202eb\rc"})
    assert shown.action == "Run \\u{a0}now"
    assert shown.details == "a\\u{202e}b\\u{d}c"
    assert shown.diff == "+\\u{1b}[2K"


@pytest.mark.parametrize("name", ["Shout", "Nobody"])
def test_info_never_raises(name):
    def odd(self, input):
        raise ValueError("no")

    registry = ToolRegistry([variant(info=odd)])
    assert registry.info(name, {"a": "\x07"}) == ToolInfo(f"Use {name}", '{\n  "a": "\\u0007"\n}')
    assert "object" in registry.info(name, {"a": object()}).details


def test_a_tool_that_leaves_while_it_is_asked_about_a_call_ends_nothing(context):
    def leave(self, *_):
        sys.exit("usage: …")

    registered = ToolRegistry([variant(info=leave, effects=leave)]).get("Shout")
    assert registered.info({}).action == "Use Shout"
    told = "Shout can't tell what this does: SystemExit"
    assert registered.effects({}, context) == (Opaque(told),)


def test_info_of_another_type_counts_as_none():
    registry = ToolRegistry([variant(info=lambda *_: "text")])
    assert registry.info("Shout", {}).action == "Use Shout"


def test_effects_are_facts_or_opaque(context):
    def odd(self, input, context):
        return [ReadPath(input["path"])]

    registered = ToolRegistry([variant(effects=odd)]).get("Shout")
    assert registered.effects({"path": "a"}, context) == (ReadPath("a"),)
    assert registered.effects({}, context) == (Opaque("Shout can't tell what this does: KeyError"),)


def test_the_built_in_tools_are_found_here():
    import greenroom.tools

    assert greenroom.tools.Todo().name == "Todo"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = greenroom.tools.Nothing


def test_a_function_tool_is_a_tool():
    @tool
    async def add(a: int) -> int:
        return a

    registry = ToolRegistry([add])
    assert registry.list_tools() == ("add",)
    assert registry.info("add", {"a": 1}) == ToolInfo("Use add", '{\n  "a": 1\n}')


async def test_an_extended_registry_sees_what_comes_later_and_its_own_tools_win(context):
    below = ToolRegistry([Shout()])
    above = below.with_tools(variant(category="write"), variant(name="Whisper"))
    below.register(variant(name="Later"))
    assert above.list_tools() == ("Shout", "Later", "Whisper")
    assert (above.get_category("Shout"), below.get_category("Shout")) == ("write", "read")
    assert (await above.execute("Later", {"text": "a"}, context)).text == "A"
    assert below.get("Whisper") is None
    with pytest.raises(ToolError, match="already registered"):
        above.register(variant(name="Whisper"))
