"""`greenroom sessions export` and `import`: what they write, what they refuse, what they leave."""

import errno
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom.cli.sessions_read import write_new_file
from greenroom.core import ConfigurationError
from greenroom.fs._internal import durable

EXAMPLE = str(Path(__file__).parents[2] / "sessions")


@pytest.fixture
def sessions(run):
    """Run a verb of `greenroom sessions` on the recorded sessions."""

    def sessions(*words, **options):
        return run("sessions", *words, "--sessions", EXAMPLE, **options)

    return sessions


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ((), "# example\n"),
        (("--format", "markdown"), "# example\n"),
        (("--format", "html"), "<!DOCTYPE html>\n"),
        (("--format", "json"), '{"format":"greenroom-session",'),
    ],
)
def test_an_export_goes_to_standard_output(sessions, words, start):
    done = sessions("export", "example", *words)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(start)
    assert "search greet" in done.out


def test_the_beginning_of_an_id_will_do(sessions):
    assert sessions("export", "exam").out == sessions("export", "example").out


def test_an_unknown_session_is_an_error(sessions):
    done = sessions("export", "nobody")
    assert (done.code, done.out) == (2, "")
    assert "nobody" in done.err


@pytest.mark.parametrize(
    ("name", "words", "format_"),
    [
        ("talk.html", (), "html"),
        ("talk.HTM", (), "html"),
        ("talk.json", (), "json"),
        ("talk.md", (), "markdown"),
        ("talk", (), "markdown"),
        ("talk.json", ("--format", "html"), "html"),
    ],
)
def test_the_ending_of_a_file_tells_the_format_unless_it_is_given(sessions, name, words, format_):
    assert sessions("export", "example", "-o", name, "--json", *words).json["format"] == format_


def test_an_export_to_a_file_is_the_same_and_the_users_alone(sessions, project):
    done = sessions("export", "example", "--format", "html", "-o", "talk.html")
    assert (done.code, done.out, done.err) == (0, "", "")
    written = project / "talk.html"
    assert written.read_text() == sessions("export", "example", "--format", "html").out
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert sorted(os.listdir(project)) == ["README.md", "talk.html"]


def test_it_tells_in_json_what_it_wrote(sessions):
    assert sessions("export", "example", "-o", "talk.md", "--json").json == {
        "session_id": "example",
        "messages": 12,
        "format": "markdown",
        "file": "talk.md",
    }


def test_json_without_a_file_is_refused_with_what_may_have_been_meant(sessions):
    done = sessions("export", "example", "--json")
    assert (done.code, done.out) == (2, "")
    assert "--format json" in done.err


def test_a_file_is_replaced_only_by_force(sessions, project):
    (project / "talk.md").write_text("precious")
    done = sessions("export", "example", "-o", "talk.md")
    assert done.code == 2
    assert "--force" in done.err
    assert (project / "talk.md").read_text() == "precious"
    assert sessions("export", "example", "-o", "talk.md", "--force").code == 0
    assert (project / "talk.md").read_text().startswith("# example")
    assert sorted(os.listdir(project)) == ["README.md", "talk.md"]


def test_a_folder_that_does_not_exist_is_an_error(sessions):
    done = sessions("export", "example", "-o", "nowhere/talk.md")
    assert done.code == 1
    assert "nowhere" in done.err


@pytest.mark.parametrize("verb", ["export", "show"])
def test_a_torn_session_is_read_with_a_note(run, tmp_path, project, verb):
    folder = tmp_path / "torn" / "example"
    folder.mkdir(parents=True)
    for name in ("metadata.json", "history.jsonl"):
        (folder / name).write_bytes(Path(EXAMPLE, "example", name).read_bytes())
    with (folder / "history.jsonl").open("ab") as file:
        file.write(b'{"n":9,"e":[{"kind"')
    done = run("sessions", verb, "example", "--sessions", str(folder.parent))
    assert done.code == 0
    assert "search greet" in done.out
    assert "19 bytes that can't be read" in done.err
    assert (folder / "history.jsonl").read_bytes().endswith(b'"kind"')


def test_an_export_is_imported_as_a_session_of_its_own(run, sessions, tmp_path):
    sessions("export", "example", "--format", "json", "-o", "talk.json")
    store = str(tmp_path / "mine")
    done = run("sessions", "import", "talk.json", "--sessions", store)
    assert (done.code, done.err) == (0, "")
    id_ = done.out.strip()
    assert id_.startswith("s-")
    shown = run("sessions", "show", id_, "--json", "--sessions", store).json
    assert shown["messages"] == sessions("show", "example", "--json").json["messages"]
    assert shown["metadata"] == {"imported_from": {"session_id": "example"}}


def test_standard_input_is_imported_and_may_keep_its_id(run, sessions, tmp_path, monkeypatch):
    text = sessions("export", "example", "--format", "json").out
    words = ("sessions", "import", "-", "--keep-id", "--json", "--sessions", str(tmp_path / "mine"))

    def piped():
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return run(*words)

    assert piped().json == {
        "session_id": "example",
        "messages": 12,
        "imported_from": {"session_id": "example"},
    }
    again = piped()
    assert again.code == 2
    assert "already holds" in again.err


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"format": "greenroom-session"})])
def test_what_is_no_export_is_refused_and_leaves_nothing(run, project, tmp_path, text):
    (project / "odd.json").write_text(text)
    done = run("sessions", "import", "odd.json", "--sessions", str(tmp_path / "mine"))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("greenroom: ")
    assert not (tmp_path / "mine").exists()


def test_a_file_that_is_not_there_is_an_error(run):
    done = run("sessions", "import", "gone.json")
    assert done.code == 1
    assert "gone.json" in done.err


def test_a_file_that_came_to_be_meanwhile_is_not_replaced(tmp_path):
    (tmp_path / "a").write_text("theirs")
    with pytest.raises(ConfigurationError):
        write_new_file(str(tmp_path / "a"), "mine", force=False)
    assert (tmp_path / "a").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_system_without_links_will_do(tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_new_file(str(tmp_path / "a"), "all", force=False)
    assert (tmp_path / "a").read_text() == "all"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch):
    def refuse(path, data):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(durable, "write_file", refuse)
    with pytest.raises(OSError, match="No space left on device"):
        write_new_file(str(tmp_path / "a"), "all", force=False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_file_that_can_not_be_written_is_named_as_the_user_did(run, tmp_path, force):
    path = tmp_path / "gone" / "a.html"
    done = run("sessions", "export", "example", "--sessions", EXAMPLE, "-o", str(path), *force)
    assert done.code == 1
    assert done.err == f"greenroom: {path}: No such file or directory\n"


def test_only_an_export_loads_the_parser_of_markdown():
    script = (
        "import sys; from greenroom.cli import sessions_change, sessions_read;"
        "print('markdown_it' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("words", [(), ("--keep-id",)])
def test_what_is_imported_is_listed_be_it_a_subagent_s_or_archived(run, shelf, tmp_path, words):
    shelf.add("s-1", title="mine")
    shelf.add("s-2", "one", parent="s-1", title="help")
    assert run("sessions", "archive", "s-2", *shelf.here).code == 0
    file = str(tmp_path / "s-2.json")
    assert run("sessions", "export", "s-2", "--output", file, *shelf.here).code == 0
    if words:
        assert run("sessions", "rm", "s-2", "--yes", *shelf.here).code == 0
    made = run("sessions", "import", file, *words, "--json", *shelf.here).json["session_id"]
    listed = run("sessions", "list", "--json", *shelf.here).json
    assert {each["session_id"] for each in listed} == {"s-1", made}
    found = run("sessions", "search", "help", "--json", *shelf.here).json["hits"]
    assert [each["session"]["session_id"] for each in found] == [made]
