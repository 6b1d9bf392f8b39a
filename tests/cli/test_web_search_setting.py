"""The setting `web_search`: off without it, the user's alone, and no trace of its key."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from greenroom.core._internal import serde

KEY = "tvly-sw0rdfish-of-the-user"
ROW = {"title": "Trio", "url": "https://trio.test/", "content": "Async for humans."}
ASK = ("-p", "search the web for trio", "--model", "offline:")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.asked.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"results": [ROW], "query": KEY}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def engine():
    """A Tavily on the loopback, and the setting that names it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.status = [], 200
        with serving(server):
            yield server


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture
def write(tmp_path):
    """Write the user's settings."""
    path = tmp_path / "home" / ".config" / "greenroom" / "settings.json"

    def write(text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else serde.dumps(text).decode())

    return write


@pytest.fixture
def set_up(write, engine):
    url = f"http://127.0.0.1:{engine.server_port}"
    write({"web_search": {"backend": "tavily", "url": url, "key_env": "SEARCH_WORD"}})


def tools_of(run, **variables):
    done = run("-p", "hello", "--output-format", "stream-json", **variables)
    return json.loads(done.out.splitlines()[0])["tools"]


def test_it_is_off_without_a_back_end(run):
    assert "WebSearch" not in tools_of(run)
    assert "takes the tool WebSearch, which I do not have" in run(*ASK).out
    assert all(each["about"] != "web search" for each in run("doctor", "--json").json)


def test_a_search_is_asked_about_and_told_as_the_words_of_the_web(run, set_up, engine):
    key = {"SEARCH_WORD": KEY}
    assert "WebSearch" in tools_of(run, **key)
    denied = run(*ASK, "--output-format", "json", **key).json["denials"]
    assert [each["tool"] for each in denied] == ["WebSearch"]
    assert engine.asked == []
    for rule in ("WebSearch", "category:network"):
        done = run(*ASK, "--allow", rule, **key)
        assert "Found on the web, by its pages' own words; nobody has checked them." in done.out
        assert "Async for humans." in done.out
    assert engine.asked == [f"Bearer {KEY}"] * 2
    assert run(*ASK, "--permission-mode", "plan", "--output-format", "json", **key).json["denials"]


def test_its_key_is_in_no_error_log_session_or_environment(run, set_up, engine, tmp_path):
    state = tmp_path / "state"
    seen = ""
    for status in (200, 401):
        engine.status = status
        words = ("--allow", "WebSearch", "--output-format", "stream-json", "--trace", "full")
        where = ("--log", str(tmp_path / "log"), "--sessions", str(state / "sessions"))
        done = run(*ASK, *words, *where, SEARCH_WORD=KEY, XDG_STATE_HOME=str(state))
        seen += done.out + done.err
    done = run(
        "-p", "run env", "--permission-mode", "bypass", "--model", "offline:", SEARCH_WORD=KEY
    )
    seen += done.out + "".join(
        run("doctor", *more, SEARCH_WORD=KEY).out for more in ((), ("--json",))
    )
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert "401" in seen
    assert len(files) > 4
    for text in (seen, *(each.read_text(errors="replace") for each in files)):
        assert KEY not in text


def test_a_key_may_stand_in_a_file(run, set_up, engine, tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    assert "Async for humans." in run(*ASK, "--allow", "WebSearch", SEARCH_WORD_FILE=str(path)).out
    path.chmod(0o644)
    assert "WebSearch is off: " in run("-p", "hello", SEARCH_WORD_FILE=str(path)).err


def test_without_its_key_it_is_off_and_doctor_says_how_to_set_it(run, set_up):
    done = run("-p", "hello")
    assert (done.code, done.err.count("WebSearch is off: SEARCH_WORD is not set")) == (0, 1)
    found = {each["about"]: each for each in run("doctor", "--json").json}["web search"]
    assert (found["status"], "SEARCH_WORD is not set" in found["detail"]) == ("problem", True)
    found = {each["about"]: each for each in run("doctor", "--json", SEARCH_WORD=KEY).json}
    assert found["web search"]["status"] == "ok"
    assert found["web search"]["detail"].endswith("with the key in SEARCH_WORD")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n"web_search": {"backend": "google"}}', ("settings.json:2", "web_search.backend")),
        ('{"web_search": {"backend": "searxng"}}', ("searxng needs a url",)),
        ('{"web_search": {"backend": "brave"}}', ("brave needs key_env",)),
        (
            '{"web_search": {"backend": "searxng", "url": "http://a.test", "key_env": "K"}}',
            ("searxng takes no key",),
        ),
        (
            '{"web_search": {"backend": "searxng",\n"url": "ftp://a.test"}}',
            ("settings.json:2", "web_search.url", "the scheme 'ftp' is not fetched"),
        ),
        (
            '{"web_search": {"backend": "brave", "key_env": "K", "url": "http://a.test"}}',
            ("sent without encryption",),
        ),
    ],
)  # fmt: skip
def test_a_setting_that_can_not_be_used_names_its_place(run, write, text, says):
    write(text)
    done = run("-p", "hello")
    assert done.code == 2
    for each in says:
        assert each in done.err


def test_no_project_sets_it_not_even_one_that_is_trusted(run, project, engine):
    url = f"http://127.0.0.1:{engine.server_port}"
    given = f'{{"backend": "searxng", "url": "{url}"}}'
    assert run("config", "set", "web_search", given, "--project").code == 0  # and trusts it
    done = run("-p", "hello")
    assert "web_search counts in your own settings only" in done.err
    assert "WebSearch" not in tools_of(run)
