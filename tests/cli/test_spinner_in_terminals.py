"""The spinner and the status line in real terminals, beside servers that keep one waiting."""

import json
import re
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.matrix import sample

ENTER, ESCAPE = "\r", "\x1b"
SIZES = [(24, 80), (24, 40), (44, 100), (60, 200)]
MODEL = "anthropic:claude-haiku-4-5"
PARTS = (r"working \d+ s", re.escape(MODEL), "main", "Esc interrupts")


@pytest.fixture
def silent():
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


class Busy(BaseHTTPRequestHandler):
    """Answers that it has too much to do."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        error = {"type": "rate_limit_error", "message": "slow down"}
        body = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(429)
        self.send_header("retry-after", "60")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts):
        pass


@contextmanager
def busy_server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ask(terminal, url, size, **variables):
    keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
    program = terminal("--model", MODEL, size=size, **keys, **variables)
    program.wait_for("idle · anthropic")
    program.type("hello" + ENTER)
    return program


@pytest.mark.parametrize("size", sample(SIZES))
def test_a_server_that_hangs_looks_like_waiting_for_a_server(terminal, project, silent, size):
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    program = ask(terminal, silent, size)
    whole = " · ".join(PARTS)

    seen = set()

    def has_waited(screen):
        seen.update(re.findall(r"^(.) waiting for", screen, re.MULTILINE))
        waits = r"\n. waiting for claude-haiku-4-5 · \d+ s\n>\nworking ([2-9]|\d\d+) s"
        return len(seen) > 2 and re.search(waits, f"\n{screen}")  # and the spinner turns

    screen = program.wait_until(has_waited)
    status = screen.splitlines()[-1]
    assert any(re.fullmatch(" · ".join(PARTS[:count]), status) for count in range(1, 5)), status
    if size[1] >= 80:
        assert re.fullmatch(whole, status)
    program.type(ESCAPE)
    program.wait_for("interrupted", "idle", without=["waiting for"])


def test_the_status_line_drops_whole_parts_when_the_window_gets_narrower(terminal, silent):
    keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": silent}
    program = terminal("--model", MODEL, "--permission-mode", "plan", size=(24, 100), **keys)
    program.wait_for(f"idle · {MODEL} · mode plan · /help")
    for columns, shown in [
        (52, f"idle · {MODEL} · mode plan"),
        (40, f"idle · {MODEL}"),
        (20, "idle"),
    ]:
        program.resize(24, columns)
        program.type("x")  # the size is looked at twice a second; a key draws at once
        program.wait_until(lambda screen: screen.endswith(f"\n{shown}"))  # noqa: B023


@pytest.mark.parametrize("variables", sample([{}, {"NO_COLOR": "1"}]))
def test_a_retry_is_told_of_on_the_spinners_row_and_does_not_stay(terminal, variables):
    with busy_server() as url:
        program = ask(terminal, url, (24, 100), **variables)
        program.wait_for("answered 429: slow down; attempt 2 in 60.0 s", "working")
        program.type(ESCAPE)
        program.wait_for("interrupted", "idle", without=["429", "attempt"])
        program.type("/quit" + ENTER)
        program.wait()


def test_without_control_codes_a_retry_is_a_line(terminal):
    with busy_server() as url:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url}
        program = terminal("--model", MODEL, term="dumb", **keys)
        program.wait_for("greenroom")
        program.type("hello\n")
        program.wait_for("answered 429: slow down; attempt 2")
        assert b"\x1b" not in program.output
        assert "waiting for" not in program.screen
