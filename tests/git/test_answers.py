"""Git is asked once for each repository, until something changes; and never for long."""

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from greenroom.git import answers as git_answers, questions as git_questions
from greenroom.git._internal import GitAnswer, GitAnswers
from tests.git.repositories import Ground


@pytest.fixture
def patient(monkeypatch):
    """Give git more time, since the machine may be busy, and let files seem old at once."""
    questions = tuple(each._replace(seconds=20) for each in git_questions._QUESTIONS)
    monkeypatch.setattr(git_questions, "_QUESTIONS", questions)
    now = time.time_ns
    monkeypatch.setattr(git_answers.time, "time_ns", lambda: now() + 10**10)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return Ground(tmp_path_factory.mktemp("ground"))


@pytest.fixture
def made(ground, request):
    return ground.make(request.node.name, "")


@pytest.fixture
def asked(monkeypatch):
    """Record the folders in which git is asked."""
    folders, ask = [], git_answers.ask_git

    def record(folder, program, environment):
        folders.append(folder)
        return ask(folder, program, environment)

    monkeypatch.setattr(git_answers, "ask_git", record)
    return folders


def ask(made, folder="."):
    return made.answers.ask(str(made.work / folder))


def test_git_is_asked_once_for_a_repository(made, asked, patient):
    assert made.answers.find(str(made.work)) is None
    answer = ask(made)
    assert (answer.reason, answer.has_submodules, answer.top) == ("", False, str(made.work))
    assert sorted(answer.folders) == [f"{made.work}/d", f"{made.work}/e"]
    assert ask(made) is ask(made, "e") is made.answers.find(str(made.work / "d")) is answer
    made.ground.shell(made.work, "git commit -qm x --allow-empty; git branch b; git tag t")
    assert asked == [str(made.work)]


CHANGES = """
git config x.y z|printf '#' >> .git/config
git add u|git rm -q --cached f|git read-tree HEAD~1
cp -r .git g; rm -r .git; mv g .git|mkdir -p .git/objects/info; touch .git/objects/info/alternates
mv .git g; echo 'gitdir: g' > .git|touch .git/config.worktree|echo . > .git/commondir
"""


@pytest.mark.parametrize("change", CHANGES.strip().replace("\n", "|").split("|"))
def test_git_is_asked_again_after_a_change(change, made, patient):
    assert ask(made).reason == ""
    made.ground.shell(made.work, change)
    assert made.answers.find(str(made.work)) is None


def test_a_change_that_shows_the_size_and_time_of_before_is_noticed(made, patient):
    config = made.work / ".git/config"
    config.write_text(f'{config.read_text()}[filter "x"]\n\tclean = true\n')
    before = config.stat()
    assert "filter.x.clean" in ask(made).reason
    config.write_text(config.read_text().replace("clean", "clear"))
    os.utime(config, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert config.stat().st_size == before.st_size
    assert ask(made).reason == ""


def test_a_repository_within_is_another_one(made, asked, patient):
    assert ask(made, "e").reason == ""
    made.ground.shell(made.work, "git init -q e; git -C e config filter.x.clean true")
    assert made.answers.find(str(made.work / "e")) is None
    assert "filter.x.clean" in ask(made, "e").reason
    assert ask(made).reason == ""


def test_what_changed_just_now_is_not_remembered(made, asked):
    os.utime(made.work / ".git/config")
    ask(made)
    assert made.answers.find(str(made.work)) is None


def test_what_depends_on_included_files_is_not_remembered(made, asked, patient):
    made.ground.shell(made.work, "git config include.path ../i; git config -f i a.b c")
    assert ask(made).reason == ""
    made.ground.shell(made.work, "git config -f i filter.x.clean true")
    assert "filter.x.clean" in ask(made).reason
    assert len(asked) == 2


def test_files_that_a_configuration_names_are_watched(made, patient):
    made.ground.shell(made.work, "git config blame.ignoreRevsFile .ignored; touch .ignored")
    assert ask(made).reason == ""
    (made.work / ".ignored").unlink()
    (made.work / ".ignored").symlink_to("../outside/secret")
    assert ".ignored" in ask(made).reason


def test_a_bounded_number_of_repositories_is_remembered(made, asked, patient, monkeypatch):
    monkeypatch.setattr(git_answers, "MAX_CACHED", 2)
    for name in ("a", "b", "c", "d"):
        made.ground.shell(made.work, f"git init -q {name}")
        ask(made, name)
    known = [made.answers.find(str(made.work / name)) for name in ("a", "b", "c", "d")]
    assert [answer is not None for answer in known] == [False, False, True, True]


def test_many_threads_may_ask(made, patient):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(made), range(16)))
    assert set(answers) == {ask(made)}


# Repositories as people have them.
USUAL = {
    "folder within": ("", "e"),
    "new": ("rm -rf .git; git init -q", "."),
    "linked work tree": ("git worktree add -q ../linked", "../linked/e"),
    "linked work tree within": ("git worktree add -q linked", "linked"),
    "bare with linked work trees": (
        "git clone -q --bare . .bare; git -C .bare worktree add -q ../tree side",
        "tree",
    ),
    "submodule": ("sub; git submodule absorbgitdirs; git config x.y z", "s"),
    "another hash": ("rm -rf .git; git init -q --object-format=sha256; git add .", "."),
    "name with signs": ("mkdir 'a b:~%é'; git init -q 'a b:~%é'", "a b:~%é"),
    "own settings": ("git config core.excludesFile .x; git config filter.x.required true", "."),
    "link within": ("rm .git/HEAD; ln -s refs/heads/main .git/HEAD", "."),
    "linked hooks": ("rm -rf .git/hooks; ln -s ../../outside .git/hooks", "."),
    "file HEAD": ("mkdir -p x/y; touch x/HEAD", "x/y"),
    "old index": ("git update-index --index-version 4", "."),
}


@pytest.mark.parametrize("name", USUAL)
def test_usual_repositories_are_read_unasked(name, ground, patient):
    script, folder = USUAL[name]
    made = ground.make(name, script)
    assert (made.work / folder).is_dir()
    answer = ask(made, folder)
    assert answer.reason == ""
    assert answer.top


def test_the_configuration_of_the_user_is_the_users_choice(made, patient):
    script = "git config --global filter.x.clean x; git config --global core.excludesFile ~/x"
    made.ground.shell(made.work, script)
    assert ask(made).reason == ""
    made.ground.shell(made.work, "rm ~/.gitconfig")


def test_without_a_repository_there_is_nothing_to_ask(made, asked):
    assert ask(made, "..") == made.answers.find(str(made.folder)) == GitAnswer()
    assert asked == []


def test_a_repository_that_goes_is_forgotten(made, patient):
    assert ask(made).top
    shutil.rmtree(made.work / ".git")
    assert ask(made) == GitAnswer()


WAITING = {
    "mkfifo .git/p; git config include.path p": "did not answer within 0.1 seconds",
    "git config include.path /dev/zero": "the repository can't be looked at",
    "rm .git/config; mkfifo .git/config": "did not answer within 0.1 seconds",
    "for i in {1..2000}; do printf '[filter \"%060d\"]\nclean\n' $i; done >> .git/config": (
        "too much"
    ),
    "printf '[' > .git/config": "does not take it for a repository",
    "rm -r .git/refs": "does not take it for a repository",
    "mkfifo .git/index2; mv .git/index2 .git/index": "did not answer",
}


@pytest.mark.parametrize("script", WAITING)
def test_what_holds_git_up_is_asked_about(script, made, monkeypatch):
    made.ground.shell(made.work, script)
    questions = [q._replace(seconds=min(q.seconds, 0.2)) for q in git_questions._QUESTIONS]
    monkeypatch.setattr(git_questions, "_QUESTIONS", tuple(questions))
    reason = ask(made).reason
    assert WAITING[script] in reason or "did not answer" in reason
    assert made.answers.find(str(made.work)) is None


def test_a_missing_git_is_a_reason(made):
    answers = GitAnswers(environment={"PATH": "relative:"})
    assert answers.ask(str(made.work)).reason == "git is not installed"
    answers = GitAnswers(str(made.work / "missing"), {})
    assert "can't be looked at" in answers.ask(str(made.work)).reason


def test_a_link_in_the_place_of_a_folder_is_found_when_git_would_follow_it(made, patient):
    answer, grep = ask(made), ["git", "-C", "e", "grep", "x"]
    assert answer.find_obstacle(grep) == ""
    shutil.rmtree(made.work / "d")
    (made.work / "d").symlink_to("..")
    assert str(made.work / "d") in answer.find_obstacle(grep)
    assert answer.find_obstacle(["git", "diff", "grep"]) == ""
