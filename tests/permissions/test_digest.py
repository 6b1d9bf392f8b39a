"""An approval is bound to what runs: every byte that matters changes the digest."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    AgentContext,
    Contact,
    Execute,
    Opaque,
    ReadPath,
    ShellCommand,
    Workspace,
    WritePath,
)
from greenroom.permissions import PermissionManager


class Stated:
    name = "Stated"
    category = "x"

    def __init__(self, *effects):
        self.stated = effects

    def effects(self, arguments, context):
        return self.stated


def context_of(root="/srv/project", cwd=None):
    return AgentContext(session_id="s", agent_type="a", workspace=Workspace(root, cwd))


def digest(tool, data=None, context=None):
    return PermissionManager().explain(tool, data or {}, context or context_of()).digest


EFFECTS = [
    ReadPath("a"),
    WritePath("a"),
    ReadPath("b"),
    Opaque("a"),
    Opaque("b"),
    Contact("https://a.test/"),
    Contact("https://a.test/b"),
    Contact("https://b.test/"),
    Execute(("ls",)),
    Execute(("ls", "a")),
    Execute(("ls a",)),
    ShellCommand("ls"),
    ShellCommand("ls", cwd="sub"),
    ShellCommand("cd sub && ls"),
    ShellCommand("ls $X"),
    ShellCommand("ls '$X'"),
    ShellCommand("ls *"),
    ShellCommand("ls '*'"),
    ShellCommand("ls ~"),
    ShellCommand("ls '~'"),
    ShellCommand("A=1 ls"),
    ShellCommand("A=2 ls"),
    ShellCommand("ls < a"),
    ShellCommand("ls > a"),
    ShellCommand("ls >> b"),
]


def test_two_effects_that_differ_have_two_digests():
    assert len({digest(Stated(each)) for each in EFFECTS}) == len(EFFECTS)


def test_it_changes_with_the_order_and_the_number_of_effects():
    first, second = ReadPath("a"), WritePath("b")
    made = [(first, second), (second, first), (first,), (first, first)]
    assert len({digest(Stated(*each)) for each in made}) == len(made)


INPUTS = [
    {},
    {"a": None},
    {"a": ""},
    {"a": 0},
    {"a": False},
    {"a": 0.0},
    {"a": []},
    {"a": {}},
    {"a": "0"},
    {"a": ["mapping", []]},
    {"a": "\ud800"},
    {"a": "\ufffd"},
    {"a": "\\ud800"},
    {"a": [1, [2]]},
    {"a": [[1], 2]},
    {"a": "1, 'b': 2"},
    {"a": "1", "b": 2},
    {"b": 2},
    {1: 2},
    {"1": 2},
    {"a": object},
    {"a": {1, 2}},
    {"a": {2}},
]


def test_two_inputs_that_differ_have_two_digests():
    assert len({digest("T", each) for each in INPUTS}) == len(INPUTS)


def test_the_order_of_keys_and_of_a_set_does_not_matter():
    first = {"a": 1, "b": {"c": {"x", "y", "z"}, "d": 2}}
    second = {"b": {"d": 2, "c": {"z", "x", "y"}}, "a": 1}
    assert digest("T", first) == digest("T", second)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), json, max_size=3), st.dictionaries(st.text(), json, max_size=3))
def test_inputs_have_one_digest_only_where_they_are_equal(first, second):
    # Python takes 1, 1.0 and True for equal, which a tool may tell apart.
    is_same = first == second and repr(first) == repr(second)
    if digest("T", first) == digest("T", second):
        assert first == second
    if is_same:
        assert digest("T", first) == digest("T", second)


@given(
    command=st.sampled_from(["git commit -m 'ab c' && ls sub", "cat a | head -n 3"]), data=st.data()
)
def test_every_byte_of_a_command_changes_it(command, data):
    at = data.draw(st.integers(0, len(command) - 1))
    byte = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
    changed = command[:at] + byte + command[at + 1 :]
    one, other = digest("Bash", {"command": command}), digest("Bash", {"command": changed})
    assert (one == other) is (command == changed)


def test_it_changes_with_the_tool_and_with_where_the_agent_stands():
    places = [context_of(), context_of("/srv/other"), context_of(cwd="/srv/project/sub")]
    assert len({digest("T", {}, each) for each in places} | {digest("U")}) == 4


@pytest.mark.parametrize("tool", ["Bash", "T"])
def test_it_changes_when_the_folder_becomes_another_one(tmp_path, tool):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("one")
    context = context_of(link)
    before = digest(tool, {"command": "make"}, context)
    assert digest(tool, {"command": "make"}, context) == before
    link.unlink()
    link.symlink_to("two")
    assert digest(tool, {"command": "make"}, context) != before


def test_it_is_the_same_in_another_process():
    """It is kept in the session, and compared with what is told of a later run."""
    import subprocess
    import sys

    program = (
        "from greenroom.core import AgentContext, Workspace\n"
        "from greenroom.permissions import PermissionManager\n"
        "c = AgentContext(session_id='s', agent_type='a', workspace=Workspace('/srv/project'))\n"
        "print(PermissionManager().explain('WebFetch', {'url': 'https://a.b.test:80/'}, c).digest)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == digest("WebFetch", {"url": "https://a.b.test:80/"})
