import locale

import pytest
from hypothesis import given, strategies as st

from greenroom.sandbox.process import clean_environment
from greenroom.tools.builtin.bash import OutputBuffer

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
    assert live == b"".join(chunks).decode("utf-8", "replace").replace("\0", "\ufffd")
    assert buffer.characters == len(live)
    assert len(buffer.text()) <= limit + 60
    if len(live) <= limit:
        assert buffer.text() == live


def test_memory_is_bounded_however_long_it_runs() -> None:
    buffer = OutputBuffer(1_000)
    for _ in range(10_000):
        buffer.feed(b"x" * 100)
    assert sum(map(len, buffer._tail)) <= 700


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
    kept = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "TERM": "xterm", "https_proxy": "p:1"}
    cleaned = clean_environment({**kept, "HTTP_PROXY": "http://me:secret@p:1"})
    assert cleaned == {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "PAGER": "cat",
    }
