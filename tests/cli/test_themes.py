"""The look fits the terminal's background, and what a terminal answers is never typed."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from rich.style import Style

from greenroom.cli.background import is_light
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.settings_schema import SettingsModel
from greenroom.cli.themes import DESCRIPTIONS, THEMES, choose_scheme
from tests.cli.matrix import SIZES, sample

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


def test_on_a_light_background_a_question_is_as_dark_around_the_line_as_above_it():
    above = Style.parse(THEMES["light"].question).color.get_truecolor().hex
    assert LINE_STYLES["light"]["question"] == f"bold {above}"
    assert Style.parse(THEMES["light"].effect).color.get_truecolor().hex == above


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


def test_each_theme_of_the_settings_can_be_chosen():
    known = get_args(SettingsModel.model_fields["theme"].annotation)
    assert set(known) == set(DESCRIPTIONS) == {"auto", *THEMES} == {"auto", *LINE_STYLES}
    assert all(styles.keys() == LINE_STYLES["dark"].keys() for styles in LINE_STYLES.values())


@pytest.mark.parametrize("size", sample(SIZES))
def test_another_theme_counts_at_once_and_in_later_runs(terminal, env, size):
    program = terminal(size=size)
    program.wait_for("offline:rules", READY)
    program.type("/theme ")
    program.wait_for("colour-blind", "for a light background")
    program.type("light\r")
    settings = Path(env["HOME"], ".config", "greenroom", "settings.json")
    program.wait_for("> /theme light", "is written", READY)
    assert json.loads(settings.read_text()) == {"theme": "light"}
    assert b"\x1b[1;34m" not in program.output
    program.type("read README.md\r")
    program.wait_for("A project of ours", "idle")
    assert b"\x1b[1;34mread README.md" in program.output
    program.type("/theme lihgt\r")
    program.wait_for("there is no theme 'lihgt'", "did you mean light?")
    program.type("/clear\r")
    program.wait_for("> /clear\ngreenroom 0", READY)
    program.type("list *\r")
    program.wait_for("> list *", "idle")
    assert b"\x1b[1;34mlist *" in program.output


@pytest.mark.parametrize("variables", sample([{"NO_COLOR": "1"}, {"term": "dumb"}]))
def test_a_theme_brings_no_colours_to_where_there_are_none(terminal, variables):
    program = terminal(**variables)
    program.wait_for("offline:rules")
    program.type("/theme dark\r")
    program.wait_for("is written")
    program.type("read README.md\r")
    program.wait_for("A project of ours")
    styles = set(re.findall(rb"\x1b\[([0-9;]*)m", program.output))
    assert {code for style in styles for code in style.split(b";")} <= {b"", b"0", b"7"}
