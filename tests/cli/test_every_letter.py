"""Every letter of a reply is on the screen, once and in order.

`GREENROOM_REPLIES=2000` shows as many in tmux, and `GREENROOM_SEED` begins with another reply.
"""

import os
import random
import re
import shutil
import sys
from pathlib import Path

import pytest

from greenroom.cli.agent_view import AgentView
from greenroom.cli.painter import ColorScheme, Painter
from greenroom.core import Lagged, TextComplete, TextDelta
from tests.cli import replies, storyteller
from tests.cli.tmux import Tmux
from tests.conftest import few

REPLIES = int(os.environ.get("GREENROOM_REPLIES", "8"))
FIRST = int(os.environ.get("GREENROOM_SEED", "200"))
TELLERS, AT_ONCE = 3, min(20, REPLIES // 2)  # programs side by side, and replies of each
CODES = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")


def shown(text, cut, width):
    view, painter = AgentView(ColorScheme()), Painter("truecolor")
    parts = [part for piece in cut for part in view.feed(TextDelta(piece))]
    parts += view.feed(TextComplete(text))
    return CODES.sub("", painter.paint(parts, width))


def test_every_letter_of_a_reply_is_painted_once_and_in_order():
    for seed in range(few(100)):
        rng = random.Random(seed)
        text = replies.reply(rng)
        width = rng.choice((20, 40, 79, 99, 199))
        assert_same_letters(shown(text, replies.pieces(rng, text), width), text, seed)


@pytest.mark.parametrize(
    "text",
    [
        "Use List<String>, put <App/> inside <Suspense>",
        "<div>\n  <p>hello</p>\n</div>",
        "<!-- a comment\n\nof two paragraphs -->",
        "const f = <T,>(x: Array<T>): Promise<void> => <Row key={x}>…</Row>",
        "[ref]: https://e.test/1",
        "A note.[^1]\n\n[^1]: The note.",
        "---\ntitle: A page\n---",
        "<https://e.test/>",
        "⚠️ ✔️ ℹ️ 1️⃣ 👍🏽 👨‍👩‍👧 ❤️‍🔥 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "می‌خواهم",
        "कृष्णः क्‍ष",
    ],
)
def test_what_a_model_writes_is_drawn_as_it_was_written(text):
    assert shown(text, [text], 80) == f"{text}\n\n"


def test_the_end_of_a_reply_of_which_pieces_were_missed_is_said_once():
    view, painter = AgentView(ColorScheme()), Painter(None)
    whole = "one\n\ntwo\n\nthr\nee\n\nfour"
    parts = view.feed(TextDelta("one\n\ntwo\n\nthr\n"))
    parts += view.feed(Lagged(5))
    parts += view.feed(TextDelta("four"))
    parts += view.feed(TextComplete(whole))
    assert painter.paint(parts, 80).split("\n\n") == [
        "one",
        "two",
        "… 5 updates came too fast to be shown\nthr\nee",
        "four",
        "",
    ]


@pytest.fixture
def tmux(env):
    server = Tmux({**env, "TERM": "tmux-256color"})
    yield server
    server.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_every_letter_is_once_on_screen_and_scrollback_however_the_window_is_resized(tmux):
    seeds = list(range(FIRST, FIRST + REPLIES, AT_ONCE))
    for at in range(0, len(seeds), TELLERS):
        tell(tmux, seeds[at : at + TELLERS])


def tell(tmux, seeds):
    """Let a teller begin with each of these replies, and look at what they have told."""
    for seed in seeds:
        words = ["-m", "tests.cli.storyteller", str(seed), str(AT_ONCE), tmux.socket]
        tmux.start(f"teller-{seed}", [sys.executable, *words], Path(__file__).parents[2])
    for seed in seeds:
        tmux.wait_for(f"teller-{seed}", storyteller.mark("end"), seconds=600)
        rest = tmux.everything(f"teller-{seed}")
        for number in range(seed, seed + AT_ONCE):
            before, mark, rest = rest.partition(storyteller.mark(number))
            assert mark, f"{number} is not on the screen"
            if number > seed:
                assert_same_letters(before, reply(number - 1), number - 1)
        assert_same_letters(rest.partition(storyteller.mark("end"))[0], reply(number), number)
    for seed in seeds[1:]:
        tmux("kill-session", "-t", f"teller-{seed}")


def reply(seed):
    return replies.reply(random.Random(seed))


def assert_same_letters(shown, text, where):
    found, wanted = replies.letters(shown), replies.read_letters(text)
    if "|" in text:  # in a table the words of a cell stand below one another
        found, wanted = sorted(found), sorted(wanted)
    assert found == wanted, where
