"""The pane of a question: rows that lose nothing, pages of which none is passed over."""

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import FormattedTextControl, Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Screen, WritePosition
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from greenroom.cli.question_pane import QuestionPane, fold, join
from greenroom.cli.terminal import QuestionText

LINES = [f"line {number}" for number in range(50)]


def texts(rows):
    return ["".join(part[1] for part in row) for row in rows]


def pane_of(lines=LINES):
    return QuestionPane(QuestionText(lambda columns: "\n".join(lines)))


def fit(pane, columns=80, room=12):
    return texts(pane.fit(columns, room))


@given(
    st.text(st.sampled_from("ab 漢é\u0301\u0323|"), max_size=80),
    st.sampled_from(["", "\x1b[1m", "\x1b[2;33m"]),
    st.integers(2, 30),
)
def test_rows_hold_every_character_and_are_never_too_wide(text, style, columns):
    end = "\x1b[0m" if style else ""
    rows = texts(fold(f"{style}{text}{end}\n{text}\n", columns))
    assert "".join(rows) == text * 2
    assert all(get_cwidth(row) <= columns for row in rows)


@pytest.mark.parametrize("text", ["Done ✔\ufe0f", "हिन्दी", "e\u0301", "done ✔\ufe0f ok", ""])
def test_the_end_of_a_row_is_drawn_once_though_it_may_have_no_width(text):
    screen, rows = Screen(), join(fold(f"{text}\n{text}\n", 40))
    with set_app(Application(input=DummyInput(), output=DummyOutput())):
        window = Window(FormattedTextControl(rows))
        place = WritePosition(0, 0, 40, 2)
        window.write_to_screen(screen, MouseHandlers(), place, "", erase_bg=True, z_index=0)
    for row in (0, 1):
        cells = screen.data_buffer[row]
        assert "".join(cells[at].char for at in sorted(cells)).rstrip() == text


def test_what_has_room_is_whole_and_read_once_it_was_shown():
    pane = pane_of(LINES[:10])
    assert fit(pane) == LINES[:10]
    assert not pane.is_paged
    assert not pane.is_read
    pane.mark_shown()
    assert pane.is_read


def test_each_page_has_to_be_shown_before_the_next_one_is():
    pane, seen = pane_of(), []
    while not pane.is_read:
        rows = fit(pane)
        assert rows[-1].startswith(f"page {len(seen) + 1} of 5 ")
        pane.turn(1)  # not shown yet
        assert fit(pane) == rows
        pane.mark_shown()
        seen.append(rows[:-1])
        pane.turn(1)
    assert {row for rows in seen for row in rows} == set(LINES)
    assert len(rows) == 12
    pane.turn(-99)
    assert fit(pane)[0] == "line 0"
    assert pane.is_read


def read_to(pane, pages, **size):
    for _ in range(pages):
        fit(pane, **size)
        pane.mark_shown()
        pane.turn(1)


def test_another_width_begins_anew_unless_all_was_read():
    pane = pane_of()
    read_to(pane, 2)
    assert fit(pane, columns=60)[0] == "line 0"
    pane.mark_shown()
    assert not pane.is_read
    read_to(pane, 5, columns=60)
    assert pane.is_read
    fit(pane, columns=30)
    assert pane.is_read


def test_another_height_keeps_what_was_shown():
    pane = pane_of()
    read_to(pane, 2)
    assert fit(pane, room=40)[0] == "line 11"
    pane.mark_shown()
    assert pane.is_read


@pytest.mark.parametrize(("columns", "room"), [(19, 40), (1, 40), (80, 2), (80, 0)])
def test_what_is_too_small_says_so_and_shows_nothing(columns, room):
    pane = pane_of(LINES[:2])
    assert len(fit(pane, columns, room)) <= room
    assert pane.is_too_small
    pane.mark_shown()
    fit(pane)
    assert not pane.is_read


@given(st.integers(20, 90), st.integers(3, 40), st.booleans())
def test_a_pane_never_takes_more_room_than_there_is(columns, room, is_one_of_many):
    pane = pane_of(["漢 " * 30] * 20)
    place = "question 1 of 3" if is_one_of_many else ""
    rows = texts(pane.fit(columns, room, place))
    assert len(rows) <= room
    assert all(get_cwidth(row) <= columns for row in rows)
    assert pane.is_paged == (not pane.is_read and "page 1" in " ".join(rows))


def with_content(content=LINES, block=("? a.txt", "why"), choices=("[y] once",), was_read=False):
    painted = ["\n".join(lines) for lines in (block, content, choices)]
    shown = QuestionText(*[lambda columns, text=text: text for text in painted])
    return QuestionPane(shown, was_read=was_read)


def test_content_is_cut_in_the_middle_and_holds_no_answer_back():
    pane = with_content()
    rows = fit(pane)
    assert rows[:6] == [f"line {number}" for number in range(6)]
    assert rows[6] == "… 42 more rows · Space: all"
    assert rows[7:] == ["line 48", "line 49", "? a.txt", "why", "[y] once"]
    pane.mark_shown()
    assert pane.is_read
    assert pane.is_paged


def test_space_shows_all_of_the_content_and_back_again_the_question_alone():
    pane, seen = with_content(), []
    folded = fit(pane)
    pane.mark_shown()
    pane.turn(1)
    for page in range(1, 8):
        rows = fit(pane)
        pane.mark_shown()
        assert rows[-2] == "[y] once"
        assert rows[-1].startswith(f"page {page} of 6") or page == 7
        seen += rows[:-2]
        pane.turn(1)
        assert pane.is_read
    assert {*LINES, "? a.txt", "why"} <= {*seen}
    pane.turn(-99)
    fit(pane)
    pane.turn(-1)
    assert fit(pane) == folded


def test_a_block_without_room_is_paged_with_its_content_and_holds_answers_back():
    pane = with_content(LINES[:4], LINES[4:20])
    assert not pane.is_read
    for _ in range(3):
        fit(pane)
        pane.mark_shown()
        pane.turn(1)
    assert pane.is_read


def test_what_was_read_in_another_form_counts_as_read():
    assert with_content(was_read=True).is_read


def test_choices_without_room_beside_a_page_are_paged_too():
    pane = with_content((), LINES[:9], [f"[{n}]" for n in range(6)])
    seen = []
    for _ in range(5):
        rows = fit(pane, room=8)
        assert len(rows) <= 8
        pane.mark_shown()
        seen += rows
        pane.turn(1)
    assert pane.is_read
    assert {f"[{n}]" for n in range(6)} <= {*seen}


@given(
    st.integers(20, 90),
    st.integers(3, 40),
    st.integers(0, 60),
    st.integers(1, 30),
    st.integers(0, 5),
    st.integers(0, 2),
)
def test_no_form_takes_more_room_than_there_is_or_loses_what_has_to_be_read(
    columns, room, content, block, choices, turns
):
    pane = with_content(LINES[:content], [f"b{n}" for n in range(block)], ["[y]"] * choices)
    seen = set()
    for _ in range(turns + 200):
        rows = texts(pane.fit(columns, room, ""))
        assert len(rows) <= room
        pane.mark_shown()
        seen |= {*rows}
        if pane.is_read:
            break
        pane.turn(1)
    assert pane.is_read
    assert {f"b{n}" for n in range(block)} <= seen
