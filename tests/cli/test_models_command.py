"""`greenroom models`, and where the model of a run comes from."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.test_settings import PRICE


@pytest.fixture
def settings(env):
    """Write the user's settings."""

    def write(text):
        folder = Path(env["HOME"], "config")
        (folder / "greenroom").mkdir(parents=True, exist_ok=True)
        (folder / "greenroom" / "settings.json").write_text(text)
        return {"XDG_CONFIG_HOME": str(folder)}

    return write


def test_it_says_which_model_is_the_default_and_whose_key_is_set_and_never_the_key(run):
    done = run("models", "--json", OPENAI_API_KEY="sk-secret", MISTRAL_API_KEY="sk-other")
    assert "sk-" not in done.out
    assert done.json["default"] == {
        "name": "openai:gpt-6.1-sol",
        "reason": "since OPENAI_API_KEY is set",
    }
    keys = {each["name"]: each["key"] for each in done.json["providers"]}
    assert (keys["openai"], keys["mistral"], keys["groq"]) == (
        "OPENAI_API_KEY",
        "MISTRAL_API_KEY",
        None,
    )
    shown = run("models", OPENAI_API_KEY="sk-secret").out
    assert "default: openai:gpt-6.1-sol, since OPENAI_API_KEY is set" in shown
    assert "OPENAI_API_KEY is set" in shown
    assert "set ANTHROPIC_API_KEY" in shown
    assert "sk-" not in shown


def test_what_is_not_known_is_null_and_said_to_be_unknown(run):
    (model,) = run("models", "ollama:llama3.2", "--json").json["models"]
    assert model["context_window"] is None
    assert set(model["abilities"].values()) == {None}
    assert model["price"] is None
    shown = run("models", "ollama:llama3.2").out
    assert shown.count("unknown") == 9
    assert "0" not in shown


def test_a_price_shows_with_its_date_and_source(run, settings):
    variables = settings(f'{{"prices": {{"gpt-5.4": {PRICE}}}}}')
    assert "2 / 10.5 USD, 2026-11-01" in run("models", "openai", **variables).out
    shown = run("models", "gpt-5.4", **variables).out
    assert "price: 2 / 10.5 USD, 2026-11-01, https://example.com" in shown
    assert "looked up 2026-11-28: https://" in shown
    (model,) = run("models", "gpt-5.4", "--json", **variables).json["models"]
    assert model["price"]["date"] == "2026-11-01"


def test_a_name_with_a_slip_is_told_the_nearest(run):
    done = run("models", "claude-sonet-5")
    assert "did you mean anthropic:claude-sonnet-5?" in done.err
    done = run("models", "antropic:x")
    assert done.code == 2
    assert "did you mean anthropic:x?" in done.err


def test_the_model_of_a_run_is_named_first_then_the_variable_then_the_settings_then_a_key(
    run, settings
):
    variables = settings('{"model": "groq:some-model"}') | {"OPENAI_API_KEY": "k"}

    def default(*words, **more):
        found = {each["about"]: each for each in run(*words, "doctor", "--json", **more).json}
        return found["model"]["detail"], found["model"]["status"]

    more = {"GREENROOM_MODEL": "offline", **variables}
    assert default("--model", "gpt-4o", **more) == ("openai:gpt-4o, named with --model", "ok")
    assert default(**more) == ("offline:rules, since GREENROOM_MODEL says so", "ok")
    more["GREENROOM_MODEL"] = ""
    assert default(**more, GROQ_API_KEY="k") == (
        "groq:some-model, since your settings say so",
        "ok",
    )
    settings("{}")
    assert default(**more) == ("openai:gpt-6.1-sol, since OPENAI_API_KEY is set", "ok")
    more["OPENAI_API_KEY"] = ""
    detail, status = default(**more)
    assert (detail.partition(",")[0], status) == ("offline:rules", "note")


def test_settings_that_can_not_be_used_end_a_run_before_it_begins(run, settings):
    variables = settings('{\n"model": "frob"}')
    done = run("-p", "hello", **variables)
    assert done.code == 2
    assert "settings.json:2:10: model: 'frob' is not the name" in done.err
    found = {each["about"]: each for each in run("doctor", "--json", **variables).json}
    assert found["your settings"]["status"] == "problem"


def test_a_run_uses_the_settings(run, settings):
    done = run("-p", "hello", "--output-format", "json", **settings('{"model": "offline"}'))
    assert (done.code, done.json["model"]) == (0, "offline:rules")


REPLY = b"""\
data: {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}

data: {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}

data: [DONE]

"""


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_a_run_is_charged_by_the_price_in_the_settings(run, settings, server):
    variables = settings(f'{{"model": "openai:m", "prices": {{"openai:m": {PRICE}}}}}')
    variables |= {"OPENAI_BASE_URL": server}
    done = run("-p", "hello", "--output-format", "json", **variables)
    assert done.json["result"] == "Hello."
    assert done.json["usage"]["cost"] == pytest.approx((1000 * 2 + 100 * 10.5) / 1_000_000)
    variables |= settings('{"model": "openai:m"}')
    done = run("-p", "hello", "--output-format", "json", **variables)
    assert done.json["usage"]["cost"] is None
