"""A user's machine, and programs that run on it: in this process, beside it, in a terminal."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from greenroom.cli import main
from greenroom.cli.markdown_view import load_parser
from greenroom.session import FileStore
from tests.cli.shelf import Shelf
from tests.terminal_program import SECONDS, TerminalProgram
from tests.warm_python import WarmProcess

COMMAND = [sys.executable, "-m", "greenroom"]
VENDORS = ("ANTHROPIC", "OPENAI", "GREENROOM_MODEL", "GROQ", "MISTRAL")

load_parser()  # else a renderer does so in a thread, for which a clock that jumps does not wait


@pytest.fixture
def project(tmp_path):
    """A folder to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("A project of ours.\n")
    return folder


@pytest.fixture
def env(tmp_path):
    """The variables of a user without keys, whose home is empty."""
    (tmp_path / "home").mkdir()
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
    root = str(Path(__file__).parents[2])
    return {**kept, "HOME": str(tmp_path / "home"), "PYTHONPATH": root, "LANG": "C.UTF-8"}


@pytest.fixture
def impatient(tmp_path):
    """The variables of a user whose models are asked once, not for ten minutes."""
    folder = tmp_path / "impatient" / "greenroom"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"retry": 0}')
    return {"XDG_CONFIG_HOME": str(folder.parent)}


@dataclass
class Finished:
    """What a program has left: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(project, env, capfd, monkeypatch):
    """Run the command in this process, which takes a tenth of the time of a new one."""

    def run(*words, cwd=project, **variables):
        for name in list(os.environ):
            if name.startswith((*VENDORS, "XDG")):
                monkeypatch.delenv(name)
        for name, value in {**env, **variables}.items():
            monkeypatch.setenv(name, value)
        if cwd is not None:
            monkeypatch.chdir(cwd)
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return Finished(code, out, err)

    return run


@pytest.fixture
def start(project, env):
    """Start the command as a process of its own; `nohup` is a new interpreter's."""
    started = []

    def start(*words, nohup=False, **options):
        ignore = partial(signal.signal, signal.SIGHUP, signal.SIG_IGN) if nohup else None
        process = (subprocess.Popen if nohup else WarmProcess)(
            [*COMMAND, *words],
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options},
            preexec_fn=ignore,
            stderr=subprocess.PIPE,
            cwd=project,
            env=env,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SECONDS)


@pytest.fixture
def unread():
    """The end to write to of a pipe whose reader has gone away."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.fixture
def terminal(project, env):
    """Start the command in a terminal."""
    programs = []

    def terminal(*words, term="xterm-256color", size=(50, 100), **variables):
        variables = {**env, "TERM": term, **variables}
        program = TerminalProgram([*COMMAND, *words], project, variables, size)
        programs.append(program)
        return program

    yield terminal
    for program in programs:
        program.close()


@pytest.fixture
def shelf(tmp_path):
    """A store to put sessions in, and the words that name it on the command line."""
    return Shelf(FileStore(tmp_path / "shelf"))
