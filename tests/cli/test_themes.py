"""The look fits the terminal's background, and what a terminal answers is never typed."""

import json

import pytest

from greenroom.cli.background import is_light
from greenroom.cli.themes import THEMES, choose_scheme

READY = "/help"
LIGHT = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;4c"


@pytest.mark.parametrize(
    ("answer", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x07", True),
        (b"\x1b]11;rgba:fdfd/f6f6/e3e3/ffff\x1b\\", True),
        (b"\x1b]11;rgb:1c1c/1c1c/1c1c\x07", False),
        (b"\x1b]11;rgb:f/f/f\x07", True),
        (b"\x1b[?1;2c", False),
        (b"garbage", False),
    ],
)
def test_a_background_is_light_or_dark(answer, light):
    assert is_light(answer) is light
    assert choose_scheme("auto", is_light=light) == THEMES["light" if light else "dark"]


def test_a_name_wins_over_the_background():
    assert choose_scheme("colour-blind", is_light=True) == THEMES["colour-blind"]


def test_the_terminal_is_asked_and_its_answer_is_not_typed(terminal):
    program = terminal()
    program.type(LIGHT)
    program.wait_for("offline:rules", READY)
    program.type("read README.md\r")
    program.wait_for("> read README.md", "A project of ours", "idle", without=["rgb", "62;4c"])
    assert b"\x1b]11;?" in program.output


def test_an_answer_that_comes_too_late_is_dropped(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type(f"read {LIGHT}README.md\r")
    program.wait_for("> read README.md", "A project of ours", "idle", without=["rgb", "62;4c"])


def test_a_theme_of_the_settings_is_used(terminal, tmp_path):
    folder = tmp_path / "config" / "greenroom"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"theme": "light"}))
    program = terminal(XDG_CONFIG_HOME=str(folder.parent))
    program.wait_for("offline:rules", READY)
    program.type("read README.md\r")
    program.wait_for("A project of ours", "idle")
    assert b"\x1b[1;34m" in program.output


def test_the_person_is_called_when_a_question_waits(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type("run touch made\r")
    program.wait_for("allow? >")
    assert b"\x07" in program.output
    assert b"\x1b]2;Bash waits for an answer\x07" in program.output


def test_nobody_is_called_where_the_settings_say_so(terminal, tmp_path):
    folder = tmp_path / "config" / "greenroom"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"notify": "none"}))
    program = terminal(XDG_CONFIG_HOME=str(folder.parent))
    program.wait_for("offline:rules", READY)
    program.type("run touch made\r")
    program.wait_for("allow? >")
    assert b"waits for an answer\x07" not in program.output
