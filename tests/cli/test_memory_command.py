"""`greenroom --memory`, `greenroom memory list` and `forget`."""

import trio

from greenroom.cli.memory_command import memory_file
from greenroom.cli.options import Options
from greenroom.cli.run_setup import open_setup
from greenroom.memory import SQLiteMemory


def fill(project, env, *texts):
    path = memory_file(project, {"XDG_DATA_HOME": f"{env['HOME']}/.local/share"}, "linux")
    memory = SQLiteMemory(path)
    return [trio.run(lambda: memory.add(text, origin="user")) for text in texts]  # noqa: B023


def test_nothing_is_remembered_at_first_and_no_file_is_made(run, env, project):
    done = run("memory", "list")
    assert (done.code, done.out) == (0, "")
    assert "nothing is remembered" in done.err
    assert run("memory", "list", "--json").json["entries"] == []
    assert run("memory", "forget", "e-1").code == 1
    assert not memory_file(project, {"XDG_DATA_HOME": f"{env['HOME']}/.local/share"}).exists()


def test_entries_are_listed_the_newest_first_and_forgotten(run, env, project):
    first, second = fill(project, env, "Use tabs.", "a\nb \x1b[31m" + "x" * 500)
    done = run("memory", "list")
    rows = done.out.splitlines()
    assert [row.split()[0] for row in rows] == [second, first]
    assert rows[1].endswith("user     Use tabs.")
    assert "\x1b" not in done.out
    assert len(rows[0]) < 300
    assert len(run("memory", "list", "--limit", "1").out.splitlines()) == 1
    [listed] = [
        each for each in run("memory", "list", "--json").json["entries"] if each["id"] == first
    ]
    assert (listed["text"], listed["origin"]) == ("Use tabs.", "user")
    done = run("memory", "forget", first, "e-unknown")
    assert (done.code, done.out) == (1, f"forgot {first}\n")
    assert "there is no entry e-unknown (`greenroom memory list` shows them)" in done.err
    assert run("memory", "forget", second, "--json").json == {"forgotten": [second], "unknown": []}
    assert run("memory", "list", "--json").json["entries"] == []


def test_each_folder_has_a_file_of_its_own(tmp_path):
    env = {"XDG_DATA_HOME": "/data"}
    one, other = memory_file(tmp_path / "a" / "x", env), memory_file(tmp_path / "b" / "x", env)
    assert one != other
    assert one.parent == other.parent


async def test_a_run_with_memory_has_its_tools_and_instructions(project, env, monkeypatch):
    monkeypatch.setenv("HOME", env["HOME"])
    monkeypatch.chdir(project)
    (project / "AGENTS.md").write_text("Be brief.")
    options = Options(model="offline:", sessions=str(project / "sessions"), memory=True)
    async with open_setup(options, {}) as setup:
        names = {each.name for each in setup.tools.definitions()}
        assert {"Remember", "Recall", "Forget"} <= names
        assert "| Be brief." in setup.instructions
        assert "ask Recall" in setup.instructions.partition("Be brief.")[2]


def test_a_run_with_memory_begins(run):
    assert run("-p", "list *.md", "--memory").code == 0
