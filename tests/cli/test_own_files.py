"""Commands and agents in files: their format, whose they are, and what they may do."""

import json

import pytest

from greenroom.agents._internal import rules_digest, trust_rules
from greenroom.cli.own_files import FileCommand

TIDY = """---
description: Tidy up
argument-hint: FOLDER
allowed-tools: Write(*.txt)
---
write $1.txt: $ARGUMENTS
"""


@pytest.fixture
def mine(tmp_path):
    """Write a file of the user's own."""

    def write(name, text):
        path = tmp_path / "home" / ".config" / "greenroom" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def theirs(project, env, monkeypatch):
    """Write a file of the project, which may be trusted."""

    def write(name, text, *, trusted=True):
        path = project / ".greenroom" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if trusted:
            monkeypatch.setenv("HOME", env["HOME"])
            monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
            trust_rules(path, rules_digest(path))
        return path

    return write


def read(run, id_):
    shown = run("sessions", "show", id_, "--json").json
    return [
        (each["role"], "".join(part.get("text", "") for part in each["content"]))
        for each in shown["messages"]
    ]


def ask(run, text, *words):
    return run("-p", text, "--model", "offline:", "--output-format", "json", *words)


def test_a_command_in_nested_folders_gets_its_words_and_its_rules_for_one_turn(run, mine, project):
    mine("commands/git/tidy.md", TIDY)
    done = ask(run, "/git:tidy one two").json
    assert done["denials"] == []
    assert (project / "one.txt").read_text() == "one two"
    assert read(run, done["session_id"])[:2] == [
        ("user", "/git:tidy one two"),
        ("user", "write one.txt: one two"),
    ]
    again = ask(run, "write two.txt: more", "--continue").json
    assert len(again["denials"]) == 1
    assert not (project / "two.txt").exists()


@pytest.mark.parametrize(
    ("body", "words", "text"),
    [
        ("Say $ARGUMENTS.", "a b", "Say a b."),
        ("Say $1, then $2.", "'a b' c", "Say a b, then c."),
        ("Say $1, then $2.", "a", "Say a, then ."),
        ("Say $1.", "it's", "Say it's."),
        ("Say hello.", "to Ada", "Say hello.\n\nto Ada"),
        ("Say hello.", "", "Say hello."),
        ("Cost: $10.", "a", "Cost: a0."),
    ],
)
def test_words_go_where_the_text_has_places_for_them(body, words, text):
    assert FileCommand("x", "", "", "", (), body, None).fill(words) == text


def test_a_commands_own_lines_run_as_judged_calls_before_the_prompt(run, mine, project):
    mine("commands/where.md", "Look at !`echo here` and say what it is.")
    done = ask(run, "/where").json
    assert (done["denials"], read(run, done["session_id"])[1][1]) == (
        [],
        "Look at here and say what it is.",
    )
    mine("commands/where.md", "Look at !`touch made`.")
    done = ask(run, "/where").json
    assert [each["tool"] for each in done["denials"]] == ["Bash"]
    assert not (project / "made").exists()
    mine("commands/where.md", "---\nallowed-tools: Bash(touch:*)\n---\nLook at !`touch made`.")
    assert ask(run, "/where").json["denials"] == []
    assert (project / "made").exists()


def test_a_file_that_its_text_names_is_sent(run, mine):
    mine("commands/read.md", "Sum up @README.md, please.")
    messages = read(run, ask(run, "/read").json["session_id"])
    assert "A project of ours." in messages[2][1]


def test_the_model_of_a_command_is_that_of_its_turn_and_an_unknown_one_is_said_once(run, mine):
    mine("commands/a.md", "---\nmodel: haiku\n---\nhello")
    done = ask(run, "/a")
    assert (done.code, done.json["model"]) == (0, "offline:rules")
    assert done.err.count("the model haiku of a file can't be used") == 1


REVIEWER = """---
name: reviewer
description: Reads a change and says what is wrong with it
tools: Read, Grep, Bash(git diff:*)
model: inherit
---
You review changes. Name the file and the line.
"""


def test_an_agent_in_a_file_is_offered_and_run_by_its_name(run, mine):
    mine("agents/reviewer.md", REVIEWER)
    words = ("--output-format", "stream-json", "--model", "offline:")
    done = run("-p", "@reviewer look at README.md", *words)
    first, *_, result = map(json.loads, done.out.splitlines())
    assert (first["agents"], first["commands"]) == (["reviewer"], ["init", "review"])
    told = read(run, result["session_id"])[1][1]
    assert "to the agent reviewer with the tool Task" in told
    assert "look at README.md" in told


def test_a_projects_files_count_once_trusted_and_are_named_until_then(run, mine, theirs, project):
    mine("commands/tidy.md", "write mine.txt: x")
    path = theirs("commands/tidy.md", TIDY, trusted=False)
    done = ask(run, "/tidy one")
    assert done.err.count(".greenroom/commands/tidy.md: not used") == 1
    assert read(run, done.json["session_id"])[1][1].startswith("write mine.txt")
    theirs("commands/tidy.md", TIDY)
    assert ask(run, "/tidy one").json["denials"] == []
    path.write_text(TIDY + "more")
    assert ".greenroom/commands/tidy.md: not used" in ask(run, "/tidy one").err


def test_a_file_that_can_not_be_used_is_told_of(run, mine):
    mine("commands/bad name.md", "hello")
    mine("commands/rule.md", "---\nallowed-tools: Bash(\n---\nhello")
    mine("commands/help.md", "hello")
    mine("agents/mute.md", "---\nname: mute\n---\nhello")
    mine("agents/idle.md", "---\ndescription: x\ntools: []\n---\nhello")
    told = ask(run, "hello").err
    assert "help.md is not used: /help is a command already" in told
    assert "idle.md is not used: it has an empty list of tools" in told
    assert "bad name.md is not used" in told
    assert "mute.md is not used: it has no description" in told


def test_a_word_that_is_no_command_is_sent_as_text(run):
    assert ask(run, "/usr/bin/env x").code == 0


@pytest.mark.parametrize(("name", "words"), [("init", "AGENTS.md"), ("review", "git diff HEAD")])
def test_commands_come_with_greenroom_and_a_file_of_ones_own_takes_their_place(
    run, mine, name, words
):
    def send():
        id_ = ask(run, f"/{name} the parser").json["session_id"]
        return "\n".join(text for role, text in read(run, id_) if role == "user")

    assert words in send()
    assert "the parser" in send()
    mine(f"commands/{name}.md", "Mine: $ARGUMENTS")
    assert "Mine: the parser" in send()
    assert words not in send()


def test_more_files_than_there_may_be_are_told_of(run, mine, monkeypatch):
    monkeypatch.setattr("greenroom.cli.own_files._MOST_FILES", 2)
    for name in "abc":
        mine(f"commands/{name}.md", "hello")
    done = run("-p", "hello", "--output-format", "stream-json")
    assert json.loads(done.out.splitlines()[0])["commands"] == ["a", "b", "init", "review"]
    assert done.err.count("commands has more than 2 files; the others are not used") == 1
