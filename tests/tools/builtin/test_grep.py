import os
from itertools import product
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ReadPath, ToolError
from greenroom.core._internal import serde
from greenroom.tools import Glob, Grep
from greenroom.tools.builtin import glob as glob_module, grep as grep_module, searcher
from greenroom.tools.builtin.file_tree import FILE_TYPES, FileFilter
from greenroom.tools.builtin.grep import GrepRows
from tests.absent_programs import needs
from tests.conftest import take_sample

RIPGREP = needs("rg")
FILES = {
    "a.py": b"import os\nimport sys\n\ndef f():\n    return os.name\n",
    "sub/b.py": b"x = 1\nIMPORT = 2\nimport os.path\r\n",
    "sub/c.txt": "grün import\nlast line without end import".encode(),
    "sub/d.js": b"import x from 'y'\n" * 3,
    "ignored.log": b"import ignored\n",
    ".hidden": b"import hidden\n",
    "binary.bin": b"import\0binary\n",
    "latin.txt": b"caf\xe9 import\n",
    "utf16.txt": "\ufeffimport sixteen\n".encode("utf-16-le"),
    "bom.txt": b"\xef\xbb\xbfimport bom\n",
    "empty.txt": b"",
    ".gitignore": b"*.log\n",
    ".git/config": b"import git\n",
}
QUERIES = {
    "files": {},
    "content": {"output_mode": "content"},
    "count": {"output_mode": "count"},
    "case": {"output_mode": "content", "-i": True},
    "case by name": {"output_mode": "count", "case_insensitive": True},
    "after": {"output_mode": "content", "-A": 1},
    "before": {"output_mode": "content", "-B": 2},
    "around": {"output_mode": "content", "-C": 1},
    "context": {"output_mode": "content", "context": 3},
    "unequal": {"output_mode": "content", "-C": 2, "-A": 0},
    "no numbers": {"output_mode": "content", "-n": False},
    "glob": {"output_mode": "content", "glob": "*.py"},
    "glob of paths": {"output_mode": "content", "glob": "sub/*.{py,js}"},
    "not glob": {"output_mode": "content", "glob": "!*.py"},
    "ignored glob": {"output_mode": "content", "glob": "*.log"},
    "odd glob": {"output_mode": "content", "glob": "[ab].py"},
    "type": {"output_mode": "content", "type": "py"},
    "type and glob": {"output_mode": "content", "type": "js", "glob": "sub/**"},
    "a folder": {"output_mode": "content", "path": "sub"},
    "a file": {"output_mode": "content", "path": "sub/c.txt", "glob": "*.none"},
    "anchors": {"output_mode": "content", "pattern": "^import [a-z]+$"},
    "an empty match": {"output_mode": "count", "pattern": "q*"},
    "not there": {"pattern": "nowhere to be found"},
    "multiline": {"output_mode": "content", "multiline": True, "pattern": "import os\nimport.*f"},
    "multiline count": {"output_mode": "count", "multiline": True, "pattern": "import"},
    "multiline files": {"multiline": True, "pattern": r"sys\n\ndef"},
    "a dash first": {"output_mode": "content", "pattern": "-e|="},
}


@pytest.fixture
def tree(root: Path) -> Path:
    for path, data in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "link").symlink_to(root / "sub")
    return root


def python(call, **query: object):
    return call(Grep(use_ripgrep=False), **{"pattern": "import", **query})


@RIPGREP
@pytest.mark.every(2)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_both_engines_give_the_same(call, tree: Path, query: dict[str, object]) -> None:
    ours = python(call, **query)
    theirs = call(Grep(), **{"pattern": "import", **query})
    assert ours.text == theirs.text
    assert ours.metadata == theirs.metadata


def test_files_are_the_default(call, tree: Path) -> None:
    assert python(call).text.split("\n") == [
        ".hidden",
        "a.py",
        "bom.txt",
        "latin.txt",
        "sub/b.py",
        "sub/c.txt",
        "sub/d.js",
        "utf16.txt",
    ]


def test_content_has_path_number_and_line(call, tree: Path) -> None:
    text = python(call, output_mode="content", path="sub").text
    assert text.split("\n")[:3] == [
        "sub/b.py:3:import os.path",
        "sub/c.txt:1:grün import",
        "sub/c.txt:2:last line without end import",
    ]


def test_context_is_marked_and_separated(call, tree: Path) -> None:
    text = python(call, pattern="sys|name", output_mode="content", path="a.py", **{"-B": 1}).text
    assert text == (
        "a.py-1-import os\na.py:2:import sys\n--\na.py-4-def f():\na.py:5:    return os.name"
    )


def test_counts_are_of_lines(call, tree: Path) -> None:
    assert "sub/d.js:3" in python(call, output_mode="count").text


@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_more_than_the_limit_stops_the_search(call, root: Path, use_ripgrep: bool) -> None:
    (root / "a.txt").write_text("needle\n" * 200_000)
    tool = Grep(use_ripgrep=use_ripgrep)
    result = call(tool, pattern="needle", output_mode="content", head_limit=3)
    assert result.text.split("\n")[2:] == [
        "a.txt:3:needle",
        "[there is more than these 3; narrow the search or set head_limit]",
    ]
    assert result.metadata == {"files": 1, "lines": 3, "more": True}


@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_a_very_long_line_is_cut(call, root: Path, use_ripgrep: bool) -> None:
    (root / "a.txt").write_text("🌱" * 1_000_000 + "\nneedle 🌱\n")
    text = call(Grep(use_ripgrep=use_ripgrep), pattern="🌱", output_mode="content").text
    assert text == "a.txt:1:" + "🌱" * 500 + " … [a longer line]\na.txt:2:needle 🌱"


@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_a_broken_expression_is_told(call, tree: Path, use_ripgrep: bool) -> None:
    with pytest.raises(ToolError, match=r"(?s)regex parse error.*escape special"):
        call(Grep(use_ripgrep=use_ripgrep), pattern="(")


@pytest.mark.parametrize("multiline", [False, True])
def test_a_match_that_takes_too_long_is_left_out_with_a_note(
    call, root: Path, multiline: bool
) -> None:
    (root / "a.txt").write_text("aa\n" + "a" * 200 + "b\naaa\n")
    (root / "b.txt").write_text("aaaa\n")
    pattern = "(a|aa)+$"
    search = Grep(use_ripgrep=False)
    text = call(search, pattern=pattern, output_mode="content", multiline=multiline).text
    assert "a.txt:1:aa\n" in text
    assert "b.txt:1:aaaa\n" in text
    assert "[not searched in full, as a match takes too long: ./a.txt]" in text
    assert multiline or "a.txt:3:aaa\n" in text


def test_counts_that_no_engine_can_hold_are_told(call, root: Path) -> None:
    with pytest.raises(ToolError, match="counts"):
        call(Grep(use_ripgrep=False), pattern="(a{1000}){1000}")


def test_an_expression_that_never_ends_is_killed(call, root: Path, monkeypatch) -> None:
    (root / "a.txt").write_text(("a" * 200 + "b\n") * 100)
    monkeypatch.setattr(grep_module, "_SECONDS", 0.3)
    with pytest.raises(ToolError, match=r"stopped after 0\.3 s"):
        python(call, pattern="(a|aa)+$")


def test_what_was_found_before_the_time_was_up_is_kept(call, root: Path, monkeypatch) -> None:
    (root / "a.txt").write_text("aaa\n")
    (root / "b.txt").write_text(("a" * 200 + "b\n") * 100)
    monkeypatch.setattr(grep_module, "_SECONDS", 2)
    text = python(call, pattern="(a|aa)+$", output_mode="content").text
    assert text.startswith("a.txt:1:aaa\n[the search was stopped")


def test_a_tree_that_takes_too_long_to_list_is_told(call, tree: Path, monkeypatch) -> None:
    monkeypatch.setattr(grep_module, "_SECONDS", 0)
    with pytest.raises(ToolError, match="stopped after 0 s"):
        python(call)


async def test_a_cancel_ends_the_search(context: AgentContext, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with trio.fail_after(60), trio.move_on_after(0.3) as scope:
        await trio.Path(root / "a.txt").write_text(("a" * 200 + "b\n") * 100)
        await Grep(use_ripgrep=False).execute({"pattern": "(a|aa)+$"}, context)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"path": "missing"}, "no file or folder missing"),
        ({"type": "klingon"}, "no file type 'klingon' .*python"),
        ({"path": "x" * 300}, "can't search"),
    ],
)
def test_what_can_not_be_searched_is_told(call, root: Path, query, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        python(call, **query)


def test_many_files_are_searched_in_batches(call, root: Path, monkeypatch) -> None:
    monkeypatch.setattr(grep_module, "_BATCH_BYTES", 40)
    for n in range(5):
        (root / f"{n}.txt").write_text("needle\n")
    assert python(call, pattern="needle").text == "0.txt\n1.txt\n2.txt\n3.txt\n4.txt"


@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_a_name_that_is_no_utf8_does_no_harm(call, root: Path, use_ripgrep: bool) -> None:
    with open(os.fsencode(root) + b"/caf\xe9.txt", "wb") as file:
        file.write(b"needle \xe9\n")
    result = call(Grep(use_ripgrep=use_ripgrep), pattern="needle", output_mode="content")
    assert result.text == "caf\ufffd.txt:1:needle \ufffd"


@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_a_name_with_a_line_end_breaks_no_row(
    call, root: Path, use_ripgrep: bool, mode: str
) -> None:
    (root / "a").mkdir()
    for name in ("a/1\nb.txt", "a/2\n\n.c:3:d.txt", "a/3.txt"):
        (root / name).write_text("needle\n")
    result = call(Grep(use_ripgrep=use_ripgrep), pattern="needle", output_mode=mode)
    end = {"files_with_matches": "", "content": ":1:needle", "count": ":1"}[mode]
    assert result.text.split("\n") == [
        f"a/1\\nb.txt{end}",
        f"a/2\\n\\n.c:3:d.txt{end}",
        f"a/3.txt{end}",
    ]


@RIPGREP
def test_a_gitignore_that_is_a_pipe_blocks_nobody(call, root: Path) -> None:
    os.mkfifo(root / ".gitignore")
    (root / "sub").mkdir()
    (root / "sub" / "a.txt").write_text("needle\n")
    for path in (".", "sub"):
        assert call(Grep(), pattern="needle", path=path).text == "sub/a.txt"
        assert call(Glob(), pattern="**/*.txt", path=path).text == "sub/a.txt"


def test_what_ripgrep_could_not_read_is_no_broken_expression(
    call, root: Path, tmp_path: Path, monkeypatch
) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setattr(grep_module, "find_ripgrep", lambda _: str(program))
    assert call(Grep(), pattern="x").text == (
        "no matches found\n[some files or folders could not be read]"
    )


@pytest.mark.parametrize("end", ["exit 101", "kill -9 $$"])
def test_when_ripgrep_crashes_python_searches(
    call, root: Path, tmp_path: Path, monkeypatch, end: str
) -> None:
    (root / "a.txt").write_text("needle\n")
    (root / "b.txt").write_text("needle\n")
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\nprintf './b.txt\\0001:1:needle\\nthread panicked\\n'\n{end}\n")
    program.chmod(0o755)
    monkeypatch.setattr(grep_module, "find_ripgrep", lambda _: str(program))
    monkeypatch.setattr(glob_module, "find_ripgrep", lambda _: str(program))
    found = call(Grep(), pattern="needle", output_mode="content")
    assert found.text == "a.txt:1:needle\nb.txt:1:needle"
    assert sorted(call(Glob(), pattern="*.txt").text.splitlines()) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "raise MemoryError"])
def test_a_search_that_crashes_is_no_search_without_matches(
    call, root: Path, tmp_path: Path, monkeypatch, end: str
) -> None:
    (root / "a.txt").write_text("needle\n")
    program = tmp_path / "searcher.py"
    program.write_text(f"import os\n{end}\n")
    monkeypatch.setattr(searcher, "__file__", str(program))
    with pytest.raises(ToolError, match="the search engine failed"):
        call(Grep(use_ripgrep=False), pattern="needle")


def test_rules_see_what_is_read(context: AgentContext) -> None:
    assert Grep().effects({"pattern": "x", "path": "a"}, context) == (ReadPath("a"),)
    assert Grep().info({"pattern": "x"}).details == "x in ."


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_every_type_is_narrowed_for_ripgrep(file_type: str) -> None:
    assert FileFilter(file_type=file_type).names


@given(st.integers(1, 40))
def test_rows_may_be_cut_anywhere(size: int) -> None:
    data = "./a\x001:🌱 one\n./a\x002-two\nan error 🌱\n./b c\x0010:\n./d\x00".encode() + b"7\n"
    rows = GrepRows("content", limit=9, wants=lambda path: path != "d", show=str, separate=True)
    for start in range(0, len(data), size):
        rows.feed(data[start : start + size])
    assert rows.lines == ["a:1:🌱 one", "a-2-two", "--", "b c:10:"]
    assert rows.notes == ["an error 🌱"]


@RIPGREP
def test_a_file_that_turns_out_to_be_binary_is_told_and_breaks_no_row(call, root: Path) -> None:
    (root / "a.bin").write_bytes(b"import\n" + b"x" * 200_000 + b"\n\0")
    (root / "b.txt").write_text("import b\n")
    lines = call(Grep(), pattern="import", output_mode="content").text.splitlines()
    assert lines[:2] == ["a.bin:1:import", "b.txt:1:import b"]
    assert [line[:3] for line in lines[2:]] == ["[./"]


def test_notes_are_bounded() -> None:
    rows = GrepRows("content", limit=9, wants=lambda _: True, show=str)
    rows.feed(b"\n" + b"x\n" * 100)
    assert rows.notes == ["x"] * 10


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({}, "{0}\x002:two\n{0}\x004:two\n"),
        ({"max_count": 1, "before": 1, "after": 1}, "{0}\x001-one\n{0}\x002:two\n{0}\x003-three\n"),
        ({"count": True}, "{0}\x002\n"),
        ({"count": True, "pattern": "four"}, ""),
        ({"multiline": True, "pattern": "e\nT", "max_count": 1}, "{0}\x001:one\n{0}\x002:two\n"),
    ],
)
def test_the_searcher_prints_rows_as_ripgrep_does(root: Path, capsys, options, output: str) -> None:
    (root / "a.txt").write_bytes(b"one\ntwo\nthree\ntwo\n")
    (root / "binary").write_bytes(b"two\0")
    every = {"pattern": "TWO", "ignore_case": True, "multiline": False, "count": False}
    every |= {"before": 0, "after": 0, "max_count": 0, **options}
    paths = [str(root / name) for name in ("a.txt", "binary", "missing")]
    assert searcher.main([serde.dumps(every).decode(), *paths]) == 0
    assert capsys.readouterr().out == output.format(paths[0])


def test_the_searcher_names_a_file_that_is_too_large(root: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(searcher, "MAX_FILE_BYTES", 3)
    (root / "a.txt").write_bytes(b"four")
    assert searcher.read(str(root / "a.txt")) == b""
    assert "larger than 3 bytes: " in capsys.readouterr().out


def test_the_searcher_says_what_is_wrong_with_an_expression(capsys) -> None:
    options = {"pattern": "(", "ignore_case": False, "multiline": False}
    assert searcher.main([serde.dumps(options).decode()]) == 2
    assert capsys.readouterr().out.startswith("regex parse error: ")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffé".encode("utf-16-be"), "é"),
        (b"\xef\xbb\xbfa", "a"),
        (b"caf\xe9", "caf\udce9"),
    ],
)
def test_the_searcher_reads_the_encodings_that_ripgrep_reads(data: bytes, text: str) -> None:
    assert searcher.decode_text(data).removeprefix("\ufeff") == text


@given(
    st.lists(st.sampled_from(["a", "b", "\n"]), max_size=12).map("".join),
    st.sampled_from(["a", "b", "ab", "a*", "b\n", "a\nb", "\n", "^a", "b$"]),
)
def test_spanned_lines_are_those_that_matches_touch(text: str, pattern: str) -> None:
    import re

    compiled = re.compile(pattern, re.MULTILINE | re.DOTALL)
    found, matches = searcher.find_spanned_lines(compiled, text, 0)
    touched = set()
    spans = [match.span() for match in compiled.finditer(text)]
    if text.endswith("\n"):
        spans = [span for span in spans if span[0] < len(text)]
    for start, end in spans:
        first = text.count("\n", 0, start)
        touched.update(range(first, text.count("\n", 0, max(end - 1, start)) + 1))
    assert (set(found), matches) == (touched, len(spans))


PATTERNS = [
    r"a$",
    r"^b",
    r"^$",
    r"^a$",
    r"[^a]$",
    r"\S$",
    r"a\s*$",
    r"b;?$",
    r"\r$",
    r"a\r",
    r"\x0d",
    r"a[^\r\n]*$",
]
SPANS = [
    r"a\nb",
    r"a$\nb",
    r"a\n+^b$",
    r"a\sb",
    r"a\s+b",
    "a\nb",
    r"b$",
    r"^a$",
    r"\r\nb",
    r"[^;]$",
]


@RIPGREP
@pytest.mark.parametrize("multiline", [False, True])
def test_both_engines_see_the_same_line_ends(call, root: Path, multiline: bool) -> None:
    # Every text of a few lines, each with an end of either kind.
    ends = ("\n", "\r\n", ";\r\n", "")
    lines = [f"{first}{end}" for first in ("a", "b", "") for end in ends]
    for number, (one, other) in enumerate((x, y) for x in lines for y in lines):
        (root / f"{number:03}.txt").write_bytes(f"{one}{other}b".encode())
    for pattern in take_sample(PATTERNS + SPANS if multiline else PATTERNS, 4):
        query = {"pattern": pattern, "multiline": multiline, "output_mode": "content"}
        query["head_limit"] = 1_000
        ours, theirs = python(call, **query), call(Grep(), **query)
        assert ours.text == theirs.text, pattern
        assert ours.metadata == theirs.metadata
        assert ours.metadata["lines"], pattern


TOKENS = [
    *(r"\n", "\n", r"\x0a", r"\s", r"\W", r"\D", ".", r"[\s]", r"[\n;]", r"[^a]", r"[^;]", r"[\W]"),
    *(r"[[:space:]]", r"\p{Z}", r"\p{Cc}", r"\P{L}", r"(?:\n|;)", r"\n\n", r";?\n", r"[]\n]", "$"),
]


@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
def test_a_spanning_match_takes_either_line_end_as_one(call, root: Path, use_ripgrep: bool) -> None:
    texts = ["".join(each) for each in product(["a", "b"], ["\n", ";", "\n\n", "b\n"], ["a", "b"])]
    for name, end in (("lf", "\n"), ("crlf", "\r\n")):
        (root / name).mkdir()
        for number, text in enumerate(texts):
            content = f"{text}\n".replace("\n", end)
            (root / name / f"{number:03}.txt").write_bytes(content.encode())
    for token, form in product(take_sample(TOKENS, 4), ["a{}b", "^b(?:{})+a|a(?:{})*b$"]):
        pattern = form.format(token, token)
        query = {"pattern": pattern, "multiline": True, "output_mode": "content"}
        rows = call(Grep(use_ripgrep=use_ripgrep), head_limit=1_000, **query).text.split("\n")
        windows = [row.removeprefix("crlf/") for row in rows if row.startswith("crlf/")]
        assert windows == [row.removeprefix("lf/") for row in rows if row.startswith("lf/")], token


@pytest.mark.in_turns("use_ripgrep")
@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=RIPGREP), False])
@pytest.mark.parametrize("place", [0, 100, 5_000, 20_000, 99_994])
def test_a_long_line_is_cut_around_the_match(
    call, root: Path, use_ripgrep: bool, place: int
) -> None:
    line = "é" * place + "needle" + "é" * (99_994 - place)
    (root / "a.txt").write_text(f"before\n{line}\n{'x' * 70_000}\n")
    tool = Grep(use_ripgrep=use_ripgrep)
    query = {"pattern": "needle", "output_mode": "content", "-C": 1}
    lines = call(tool, **query).text.split("\n")
    shown = lines[1].removeprefix("a.txt:2:").removesuffix(" [a longer line]")
    assert "needle" in shown
    assert shown.strip("… ") in line
    assert 499 <= len(shown.strip("… ")) <= 500
    assert shown.startswith("…") is (place > 250)
    assert shown.endswith("…") is (place < 99_000)
    assert lines[2] == "a.txt-3-" + "x" * 500 + " … [a longer line]"


@given(st.integers(1, 9_000), st.sampled_from([1, 600, 30_000, 59_990]))
def test_a_long_row_may_be_cut_anywhere(size: int, place: int) -> None:
    text = b"y" * place + b"needle" + b"z" * (60_000 - place)
    data = b"./b\nc\x001:%d:%s\n./d\x002:1:needle\n" % (place + 1, text)
    rows = GrepRows("content", limit=9, wants=lambda _: True, show=str, columns=True)
    for start in range(0, len(data), size):
        rows.feed(data[start : start + size])
    assert rows.lines[0].startswith("b\\nc:1:")
    assert "needle" in rows.lines[0]
    assert len(rows.lines[0]) < 540
    assert rows.lines[1:] == ["d:2:needle"]
