import locale
import re

import pytest
from hypothesis import given, strategies as st

from greenroom.sandbox.process import clean_environment
from greenroom.tools.builtin.bash import OutputBuffer
from greenroom.tools.builtin.terminal_text import MAX_COLUMNS, TerminalText

TEXT = "ab🌱é\n🌱🌱漢x🌱"


@pytest.mark.parametrize("limit", range(len(TEXT) + 3))
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_no_character_is_split_at_any_limit_or_chunk(limit: int, size: int) -> None:
    buffer = OutputBuffer(limit)
    data = TEXT.encode()
    pieces = [buffer.feed(data[start : start + size]) for start in range(0, len(data), size)]
    assert "".join(pieces) == TEXT
    shown = buffer.text()
    if limit >= len(TEXT):
        assert shown == TEXT
        return
    head, tail = TEXT[: limit - limit // 2], TEXT[len(TEXT) - limit // 2 :]
    assert shown == f"{head}\n… {len(TEXT) - limit} characters left out …\n{tail}"


@given(st.lists(st.binary(max_size=20)), st.integers(2, 30))
def test_any_bytes_are_text_and_bounded(chunks: list[bytes], limit: int) -> None:
    buffer = OutputBuffer(limit)
    live = "".join([*(buffer.feed(chunk) for chunk in chunks), buffer.feed(b"", final=True)])
    screen = TerminalText()
    whole = screen.feed(b"".join(chunks).decode("utf-8", "replace")) + screen.pending
    assert buffer.characters == len(whole)
    assert len(buffer.text()) <= limit + 60
    if len(whole) <= limit:
        assert buffer.text() == whole
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", live + whole)


def test_memory_is_bounded_however_long_it_runs() -> None:
    buffer = OutputBuffer(1_000)
    for _ in range(10_000):
        buffer.feed(b"x" * 100)
    assert sum(map(len, buffer._ends._tail)) <= 700 + MAX_COLUMNS
    assert sum(len(row.text) for row in buffer._screen._rows) <= MAX_COLUMNS


@pytest.mark.parametrize(
    "name",
    [
        *["OPENAI_API_KEY", "GITHUB_TOKEN", "A_SECRET", "PGPASSWORD", "AWS_CREDENTIALS"],
        *["SSH_AUTH_SOCK", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "IFS"],
        *["PROMPT_COMMAND", "PYTHONSTARTUP", "NODE_OPTIONS", "GIT_CONFIG_COUNT", "DATABASE_URL"],
        *["LC_ANYTHING", "LC_API_KEY", "LC_", "LC_ALL_TOKEN", "LC_CTYPE\nX"],
    ],
)
def test_what_is_not_known_to_be_harmless_is_dropped(name: str) -> None:
    assert name not in clean_environment({name: "x"})


def test_every_category_of_a_locale_is_kept() -> None:
    names = [name for name in dir(locale) if name.startswith("LC_")]
    assert "LC_CTYPE" in names
    gnu = ["LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER"]
    given = dict.fromkeys([*names, *gnu, "LC_TELEPHONE", "LANG", "LANGUAGE"], "C")
    assert given.items() <= clean_environment(given).items()


def test_what_commands_need_is_kept() -> None:
    kept = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "https_proxy": "p:1"}
    cleaned = clean_environment({**kept, "HTTP_PROXY": "http://me:secret@p:1"})
    assert kept.items() <= cleaned.items()
    assert "HTTP_PROXY" not in cleaned


def test_a_command_is_told_that_it_has_no_terminal() -> None:
    theirs = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "EDITOR": "vi", "PAGER": "less"}
    cleaned = clean_environment({**theirs, "NO_COLOR": "", "GIT_EDITOR": "vi"})
    assert (cleaned["TERM"], cleaned["NO_COLOR"], cleaned["PAGER"]) == ("dumb", "1", "cat")
    assert "COLORTERM" not in cleaned
    editors = {value for name, value in cleaned.items() if "EDIT" in name or name == "VISUAL"}
    assert {each.split()[0] for each in editors} == {"false"}
