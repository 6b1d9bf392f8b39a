"""An agent's states, and the context of its tools: identity, resources, only JSON serialised."""

import pytest

from greenroom.core import AgentContext, AgentState, Credential, ResourceMap, Workspace
from greenroom.core._internal import Credentials, InvalidJSONError, StateKind, serde


class Counter:
    pass


def test_resources_are_found_by_class_and_shared_by_copies():
    context = AgentContext(session_id="s-1", agent_type="coder")
    counter = Counter()
    context.resources.insert(counter)
    copy = context.with_tool_use_id("t1")
    assert copy.resources.get(Counter) is counter
    assert (copy.current_tool_use_id, context.current_tool_use_id) == ("t1", None)
    assert copy.workspace is context.workspace


def test_a_resource_can_be_replaced_and_removed():
    resources = ResourceMap()
    first, second = Counter(), Counter()
    resources.insert(first)
    resources.insert(second)
    assert resources.contains(Counter)
    assert len(resources) == 1
    assert resources.remove(Counter) is second
    assert resources.remove(Counter) is None
    assert not resources.contains(Counter)


def test_serialising_leaves_resources_out():
    context = AgentContext(session_id="s-1", agent_type="coder")
    context.resources.insert(Counter())
    context.set_metadata("ticket", {"id": 7})
    data = serde.loads(serde.dumps(context.to_json()))
    assert data["metadata"] == {"ticket": {"id": 7}}
    assert "resources" not in data
    assert context.get_metadata("ticket") == {"id": 7}


@pytest.mark.parametrize("value", [Counter(), (1, 2), float("nan"), {1: 2}, {"a": [{"b"}]}])
def test_metadata_that_is_no_json_is_refused_by_name(value):
    context = AgentContext(session_id="s-1", agent_type="coder")
    with pytest.raises(InvalidJSONError, match="ticket"):
        context.set_metadata("ticket", value)
    assert context.metadata == {}


def test_metadata_is_copied():
    context, value = AgentContext(session_id="s-1", agent_type="coder"), ["a"]
    context.set_metadata("list", value)
    value.append("b")
    assert context.get_metadata("list") == ["a"]


def test_without_a_runtime_the_hooks_do_nothing():
    context = AgentContext(session_id="s-1", agent_type="coder")
    context.with_tool_use_id("t").progress("a")
    context.report_abandoned("a thread")
    with context.cleanup(1.0):
        pass


def test_progress_is_told_with_the_call_that_makes_it_and_with_none_not_at_all():
    seen = []
    context = AgentContext(
        session_id="s-1", agent_type="coder", on_progress=lambda *told: seen.append(told)
    )
    context.progress("of no call")
    context.with_tool_use_id("t").progress("line")
    assert seen == [("t", "line")]


def test_a_workspace_resolves_from_where_the_agent_stands(tmp_path):
    workspace = Workspace(tmp_path)
    workspace.cwd = tmp_path / "sub"
    assert workspace.absolute("../a") == tmp_path / "a"
    assert workspace.absolute("/etc/../x").as_posix() == "/x"
    assert workspace.root == tmp_path


def test_a_copy_of_a_workspace_begins_at_the_same_place_and_moves_on_its_own():
    workspace = Workspace("/srv/project", "/srv/project/src")
    twin = workspace.copy()
    assert (twin.root, twin.cwd) == (workspace.root, workspace.cwd)
    twin.cwd = twin.absolute("deeper")
    assert workspace.absolute("a.py").as_posix() == "/srv/project/src/a.py"


def test_done_and_failed_are_final():
    final = {kind for kind in StateKind if AgentState(kind).is_final}
    assert final == {StateKind.DONE, StateKind.FAILED}


def test_the_phase_is_the_detail_of_processing_and_of_nothing_else():
    planning = AgentState.processing("planning")
    assert (planning.phase, planning.detail, str(planning)) == (
        "planning",
        "planning",
        "processing: planning",
    )
    assert AgentState.processing().phase == AgentState.executing_tool("Bash").phase == ""
    assert AgentState.processing("") == AgentState.processing() != planning


def test_a_credential_goes_to_the_credentials_that_the_resources_have_already():
    resources, credentials = ResourceMap(), Credentials()
    resources.insert(credentials)
    Credential("token").give(resources, "secret")
    assert credentials.find("token") == "secret"


def test_a_credential_that_is_given_to_one_tree_of_agents_is_not_given_to_all():
    shared, context = ResourceMap(), AgentContext(session_id="s-1", agent_type="coder")
    Credential("token").give(shared, "for all")
    context.resources = ResourceMap(shared=shared)
    Credential("key").give(context.resources, "for one")
    assert Credential("key").find(context) == "for one"
    assert Credential("token").find(context) == "for all"
    assert shared.get(Credentials).find("key") is None
