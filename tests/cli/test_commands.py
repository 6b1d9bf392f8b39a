"""The commands of the input line, and the menu that offers them."""

import pytest
from hypothesis import given, strategies as st

from greenroom.cli.commands import COMMANDS, KEYS, CommandLine, read_command
from greenroom.cli.menu import MAX_ROWS, Candidate, Menu, complete, find_matches, find_slot
from tests.cli.test_interactive import ENTER, ESCAPE, READY, ask

UP, DOWN, TAB = "\x1b[A", "\x1b[B", "\t"


@pytest.mark.parametrize(
    ("line", "nearest"),
    [("/exti", "/exit"), ("/hlep", "/help"), ("/compct a b", "/compact")],
)
def test_a_word_that_is_no_command_gets_the_nearest_name(line, nearest):
    assert f"did you mean {nearest}?" in read_command(line, COMMANDS)


@pytest.mark.parametrize("line", ["/usr/bin/env x", "//", "a /help", "", "help", "/a/"])
def test_a_second_slash_in_the_first_word_makes_it_text(line):
    assert read_command(line, COMMANDS) is None


@given(st.text(max_size=20))
def test_no_line_that_begins_with_a_slash_is_text_without_another_in_its_first_word(rest):
    line = f"/{rest}"
    is_text = read_command(line, COMMANDS) is None
    first = line.strip().partition("\n")[0].partition(" ")[0]
    assert is_text == ("/" in first[1:])


def test_the_words_of_a_command_may_have_several_lines():
    assert read_command("/compact the parser\nand its tests", COMMANDS) == CommandLine(
        next(each for each in COMMANDS if each.name == "compact"), "the parser\nand its tests"
    )


def test_every_command_and_key_says_what_it_does_in_a_line():
    names = [each.name for each in COMMANDS]
    assert len(set(names)) == len(names)
    for each in COMMANDS:
        assert each.summary
        assert len(each.usage) <= 30
        assert len(each.summary) <= 90
        assert "\n" not in each.summary
        assert not each.summary.endswith(".")
    assert all(each.at_line or each.at_question for each in KEYS)


def test_every_command_names_a_function_that_exists():
    from importlib import import_module

    for each in COMMANDS:
        module, _, function = each.function.partition(".")
        assert callable(getattr(import_module(f"greenroom.cli.{module}"), function)), each.name


words = st.text("abcA/. é世", max_size=8)


@given(st.lists(words, max_size=30), words, st.integers(1, 200), st.integers(0, 30), st.integers())
def test_a_menu_fits_and_shows_what_is_marked(names, query, columns, room, moves):
    menu = Menu(offered={"file": [Candidate(name, "a note", "one\ntwo") for name in names]})
    menu.update(f"@{query}".replace(" ", ""))
    for _ in range(abs(moves) % 7):
        if menu.is_open:
            menu.move(1 if moves > 0 else -1)
    rows = menu.rows(columns, room)
    assert len(rows) <= min(room, MAX_ROWS)
    if menu.current is not None and room:
        assert sum(style == "class:menu.marked" for style, _ in rows) == 1


@given(words, st.lists(words, max_size=10))
def test_a_match_that_is_taken_stands_in_place_of_what_was_typed(query, names):
    text = f"see @{query} and more".replace("\n", "")
    cursor = len(f"see @{query}")
    slot = find_slot(text[:cursor], COMMANDS)
    for each in find_matches(query, map(Candidate, names)) if slot else ():
        done, at = complete(text, cursor, slot, each)
        assert each.word in done[:at]
        assert done[at:].strip() == "and more"


@pytest.mark.parametrize(
    ("typed", "said"),
    [("/resume nowhere", ["no session in the list matches 'nowhere'"]), ("/resume mend", ["one"])]
    + [
        (text, [])
        for text in ("/resume ", "/nothing x", "@nowhere", "/agents x stop", "/fork x", "x")
    ],
)
def test_a_menu_says_where_nothing_matches_what_is_typed(typed, said):
    sessions = [Candidate("1", label="mend one"), Candidate("2", label="two")]
    menu = Menu(commands=COMMANDS, offered={"session": sessions, "file": [Candidate("a.py")]})
    menu.update(typed)
    rows = "\n".join(row for _, row in menu.rows(80, 5))
    assert all(each in rows for each in said)
    assert ("matches" in rows) == ("nowhere" in typed and typed.startswith("/"))


def test_a_menu_follows_the_letters_and_enter_runs_what_is_marked(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type("/")
    program.wait_for("/help", "/model", "talk to another model")
    program.type("exi")
    program.wait_for("▸ /exit", without=["/export"])
    program.type(ENTER)
    assert program.wait() == 0


def test_arrows_move_the_mark_tab_takes_it_and_escape_closes_the_menu(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    program.type("/" + DOWN + DOWN)
    program.wait_for("▸ /model")
    program.type(UP)
    program.wait_for("▸ /help", without=["▸ /model"])
    program.type(TAB)
    program.wait_for("> /help", without=["▸"])
    program.type("\x15/")
    program.wait_for("/effort")
    program.type(ESCAPE)
    program.wait_for("> /", without=["/effort"])
    program.type("usr/bin/env x" + ENTER)
    program.wait_for("> /usr/bin/env x", "a handful of rules", "idle")


def test_what_is_no_command_is_said_and_never_sent(terminal):
    program = terminal()
    program.wait_for("offline:rules", READY)
    ask(program, "/exti")
    program.wait_for("there is no command /exti; did you mean /exit?", "idle")
    ask(program, "/compact focus on x")
    program.wait_for("> /compact focus on x", "can't be made shorter", "idle")
    ask(program, "/quit")
    assert program.wait() == 0
    assert "a handful of rules" not in program.screen  # the offline model's answer to anything


def test_commands_work_where_nothing_can_be_redrawn(terminal):
    program = terminal(term="dumb")
    program.wait_for("offline:rules")
    ask(program, "/help")
    program.wait_for("/compact [WORDS]", "Ctrl-R", "search in earlier inputs")
    ask(program, "/qiut")
    program.wait_for("did you mean /quit?")
    ask(program, "/quit")
    assert program.wait() == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_the_whole_name_of_a_command_is_the_first_of_its_menu(command):
    menu = Menu(commands=COMMANDS)
    menu.update(f"/{command.name}")
    assert menu.current.word == f"/{command.name}"
