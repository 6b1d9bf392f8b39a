"""`greenroom mcp`, and runs with servers of tools."""

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

SERVER = Path(__file__).parents[1] / "interop" / "server.py"


def test_servers_are_added_listed_tested_and_removed(run, env):
    assert "there are no MCP servers" in run("mcp", "list").err
    done = run("mcp", "add", "--env", "OWN=${OWN:-1}", "demo", sys.executable, str(SERVER))
    assert done.code == 0
    path = Path(env["HOME"]) / ".config" / "greenroom" / "mcp.json"
    assert json.loads(path.read_text())["mcpServers"]["demo"]["env"] == {"OWN": "${OWN:-1}"}
    assert run("mcp", "list").out.splitlines()[0] == f"demo: {sys.executable} {SERVER}"
    assert run("mcp", "list", "--json").json[0]["name"] == "demo"
    tested = run("mcp", "test")
    assert tested.code == 0
    assert "demo: connected" in tested.out
    assert "mcp__demo__echo" in tested.out
    other = run("mcp", "test", "other")
    assert other.code == 2
    assert "there is no MCP server other (`greenroom mcp list` shows them" in other.err
    assert run("mcp", "remove", "demo").code == 0
    assert run("mcp", "remove", "demo").code == 1


def test_a_server_that_does_not_start_says_why(run):
    run("mcp", "add", "demo", "no-such-program")
    run("mcp", "add", "--header", "Authorization: ${TOKEN}", "docs", "https://example.invalid/mcp")
    tested = run("mcp", "test")
    assert tested.code == 1
    assert "No such file or directory" in tested.out
    assert "docs: left out: it needs the variable TOKEN" in tested.out


@pytest.mark.parametrize(
    "words",
    [
        ("a b", "x"),
        ("--header", "A: b", "demo", "x"),
        ("--env", "A", "demo", "x"),
        ("demo", "https://example.com", "x"),
    ],
)
def test_what_makes_no_sense_is_refused(run, words):
    done = run("mcp", "add", *words)
    assert done.code == 2
    assert run("mcp", "list").out == ""


def write_project(project, *args):
    entry = {"command": sys.executable, "args": list(map(str, args))}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": entry}}))


def tools_of(run):
    done = run("-p", "hello", "--output-format", "stream-json")
    return json.loads(done.out.splitlines()[0])["tools"], done.err


def test_a_projects_servers_count_once_a_person_has_agreed(terminal, run, project):
    write_project(project, SERVER)
    tools, notes = tools_of(run)
    assert not [each for each in tools if each.startswith("mcp__")]
    assert "the MCP server demo" in notes
    assert "not trusted" in notes
    program = terminal("permissions", "trust", size=(50, 300))
    screen = program.wait_for("[y/N]")
    assert "would start these servers of tools" in screen
    program.type("y\r")
    assert program.wait() == 0
    assert "mcp__demo__echo" in tools_of(run)[0]
    write_project(project, SERVER, "more")
    assert "not trusted" in tools_of(run)[1]


def test_a_program_of_the_project_has_to_be_trusted_as_well(terminal, run, project):
    (project / "server.py").write_text(SERVER.read_text())
    write_project(project, "server.py")
    program = terminal("permissions", "trust", size=(50, 300))
    for _ in range(2):  # the list, and the program that it names
        program.wait_for("[y/N]")
        program.type("y\r")
    assert program.wait() == 0
    assert "mcp__demo__echo" in tools_of(run)[0]
    (project / "server.py").write_text("import os; os._exit(0)")
    tools, notes = tools_of(run)
    assert not [each for each in tools if each.startswith("mcp__")]
    assert "server.py is of the project, and not trusted" in notes


def test_a_run_takes_a_file_of_servers(run, project, tmp_path):
    path = tmp_path / "servers.json"
    entry = {"command": sys.executable, "args": [str(SERVER)]}
    path.write_text(json.dumps({"mcpServers": {"demo": entry}}))
    done = run("-p", "hello", "--mcp-config", str(path), "--output-format", "stream-json")
    assert "mcp__demo__echo" in json.loads(done.out.splitlines()[0])["tools"]
    path.write_text("{")
    done = run("-p", "hello", "--mcp-config", str(path))
    assert done.code == 2
    assert os.fspath(path) in done.err


def test_the_terminal_shows_the_servers(terminal, run):
    run("mcp", "add", "demo", sys.executable, str(SERVER))
    program = terminal("--model", "offline:")
    program.wait_for(">")
    program.type("/mcp\r")
    program.wait_for("demo: connected")
    program.wait_for("mcp__demo__echo")
    program.type("/quit\r")
    assert program.wait() == 0


def test_prompts_are_commands_and_resources_are_mentions(terminal, run, env):
    run("mcp", "add", "demo", sys.executable, str(SERVER))
    program = terminal("--model", "offline:")
    program.wait_for(">")
    program.type("/demo:greet Ada Lovelace\r")
    program.wait_for("/demo:greet Ada Lovelace")
    program.type("what is in @demo:demo://a?\r")
    program.wait_for("what is in @demo:demo://a?")
    program.type("and @demo:demo://nothing\r")
    program.wait_for("not sent: @demo:demo://nothing")
    program.type("/quit\r")
    assert program.wait() == 0
    (path,) = Path(env["HOME"]).rglob("history.jsonl")
    text = path.read_text()
    assert "Greet Ada Lovelace." in text
    assert "The prompt greet of the MCP server demo, in its words, not the user's:" in text
    assert "the text of a" in text


def test_a_setting_of_the_user_names_one_more_file(run, env, project, tmp_path):
    path = tmp_path / "more.json"
    path.write_text('{"mcpServers": {"more": {"command": "more"}}}')
    assert run("mcp", "list", "--mcp-config", str(path)).out.startswith("more: more")
    assert run("mcp", "list", GREENROOM_MCP_CONFIG=str(path)).out.startswith("more: more")
    settings = Path(env["HOME"]) / ".config" / "greenroom" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"mcp_config": str(path)}))
    assert run("mcp", "list", GREENROOM_MCP_CONFIG="").out.startswith("more: more")
    # A relative path would be another file in each folder, and a project could bring it.
    settings.write_text('{"mcp_config": "more.json"}')
    assert "write the whole path" in run("mcp", "list").err
    settings.unlink()
    (project / ".greenroom").mkdir()
    (project / ".greenroom" / "settings.json").write_text(json.dumps({"mcp_config": str(path)}))
    assert run("mcp", "list").out == ""
