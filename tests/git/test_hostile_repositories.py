"""Git that only reads runs no program of a hostile repository, and shows and changes nothing."""

import os
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from greenroom.git import questions as git_questions
from greenroom.programs.invocation import PROGRAMS
from tests.git.repositories import HARMFUL, READING, SCRIPTS, Ground

TRIED = int(os.environ.get("GREENROOM_BASH_CASES", "200"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "7"))


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give git more time, since the machine may be busy."""
    questions = tuple(each._replace(seconds=20) for each in git_questions._QUESTIONS)
    monkeypatch.setattr(git_questions, "_QUESTIONS", questions)


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)


def try_repository(ground, name):
    """Read a hostile repository; return the harm done, and that without any protection."""
    made, rng = ground.make(name), Random(f"{SEED} {name}")
    before = made.describe()
    harmful = HARMFUL.get(name, "git status").split()
    sample = rng.sample(READING, min(len(READING), max(TRIED // len(SCRIPTS), 1)))
    unasked = [argv for argv in (harmful, *sample) if not made.find_obstacle(argv)]
    found = [(name, argv, harm) for argv in unasked if (harm := made.harm(made.read(argv)))]
    if made.describe() != before:
        found.append((name, unasked, "changed"))
    return found, made.harm(made.run(harmful))


def test_nothing_that_is_read_unasked_does_harm(ground):
    with ThreadPoolExecutor(4) as pool:
        tried = list(pool.map(lambda name: try_repository(ground, name), SCRIPTS))
    assert [harm for found, _ in tried for harm in found] == []
    assert sum(bool(harm) for _, harm in tried) > len(SCRIPTS) / 2  # so the test can notice it


VERBS = {
    name: program
    for name, program in PROGRAMS.items()
    if name.startswith("git ") and program.is_kind("files", "text", "pattern", "none")
}
VALUES = "1 HEAD f * iso always short v1 /t/ all x=y :f e log patch 1,2:f AMD %H%G?%GG%(describe)"
OPERANDS = ";HEAD;HEAD -- f;f;HEAD~2 HEAD;main;v2;vs;HEAD:f;origin;-- s;s;stash@{0}"


def write_command(rng):
    """Write a command with any options of a verb that only reads, and any values for them."""
    verb = rng.choice(list(VERBS))
    marks = {name: each for name, each in VERBS[verb].options.items() if name[0] == "-"}
    argv = ["git", *rng.choice(([], [], ["-C", "e"])), *verb.split()[1:]]
    for option in rng.sample(list(marks), min(len(marks), rng.randrange(4))):
        value, sign = rng.choice(VALUES.split()), "=" if option.startswith("--") else ""
        attached = [f"{option}{sign}{value}"]
        may_be_apart = [[option, value], attached] if marks[option][-1] in "=@" else [[option]]
        argv += rng.choice([attached, [option]] if marks[option][-1] == "?" else may_be_apart)
    return [*argv, *["one"] * (verb == "git grep"), *rng.choice(OPERANDS.split(";")).split()]


def test_no_option_that_a_verb_reads_unasked_does_harm(ground):
    made, rng, found, tried = ground.make("much at once"), Random(SEED), [], 0
    before = made.describe()
    for argv in (write_command(rng) for _ in range(TRIED)):
        if made.find_obstacle(argv):
            continue
        tried += 1
        if (harm := made.harm(made.read(argv))) or made.describe() != before:
            found.append((argv, harm or "changed"))
    assert found == []
    assert tried > TRIED / 5


def list_values():
    """List the options whose value may be the next word."""
    for verb, program in VERBS.items():
        for option, marks in program.options.items():
            if marks[-1] in "=@" and marks[1:2] not in ("!", "~"):
                yield verb, option


def test_git_takes_the_word_behind_an_option_for_its_value_where_we_do(ground):
    made, wrong = ground.make("usual", ""), []
    complaints = (b"unknown option", b"unrecognized argument", b"invalid option", b"unknown switch")
    for verb, option in list_values():
        output = made.run([*verb.split(), option, "--not-an-option", "f"])
        if any(each in output and b"not-an-option" in output for each in complaints):
            wrong.append((verb, option, output))
    assert wrong == []
    assert b"not-an-option" in made.run(["git", "log", "--not-an-option"])
