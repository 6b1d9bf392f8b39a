"""The settings file: the model, what models cost; strict, with the place of what is wrong."""

import os
from pathlib import Path

import jsonschema
import pytest

from greenroom.cli.settings import read_settings
from greenroom.cli.settings_schema import SettingsModel
from greenroom.core import Price
from greenroom.core._internal import ConfigurationFileError, NamedTool, serde
from greenroom.llm import ModelSettings
from greenroom.resilience import Retry

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "settings.schema.json"

PRICE = '{"input": 2, "output": 10.5, "date": "2026-11-01", "source": "https://example.com"}'


def priced(price=PRICE, name="gpt-5", more=""):
    return f'{{"prices": {{"{name}": {price}{more}}}}}'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


def test_the_published_schema_is_current():
    schema = SettingsModel.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    assert serde.loads(SCHEMA.read_bytes()) == serde.loads(serde.dumps(schema))


def test_a_file_that_is_not_there_or_empty_says_nothing(path):
    assert read_settings(path) == read_settings(path.with_name("other"))
    path.write_text("{}")
    assert read_settings(path).model is None


def test_it_holds_a_model_and_prices_with_their_date_and_source(path):
    path.write_text(f'{{"model": "gpt-5.4", "prices": {{"openai:gpt-5.4": {PRICE}}}}}')
    jsonschema.validate(serde.loads(path.read_bytes()), serde.loads(SCHEMA.read_bytes()))
    settings = read_settings(path)
    listed = settings.prices["openai:gpt-5.4"]
    assert settings.model == "openai:gpt-5.4"
    assert (listed.price, listed.currency) == (Price(2, 10.5), "USD")
    assert (str(listed.date), listed.source) == ("2026-11-01", "https://example.com")


def test_the_model_is_opened_with_its_settings(path):
    path.write_text(
        '{"model_settings": {"effort": "high", "max_tokens": 9, "stop": ["END"],'
        ' "tool_choice": "any"}}'
    )
    llm = read_settings(path).open("gpt-5.4", {"OPENAI_API_KEY": "k"})
    assert llm.settings == ModelSettings(
        effort="high", max_tokens=9, stop=["END"], tool_choice="any"
    )


def test_the_model_may_have_to_call_a_certain_tool(path):
    path.write_text('{"model_settings": {"tool_choice": {"name": "Read"}}}')
    jsonschema.validate(serde.loads(path.read_bytes()), serde.loads(SCHEMA.read_bytes()))
    llm = read_settings(path).open("gpt-5.4", {"OPENAI_API_KEY": "k"})
    assert llm.settings == ModelSettings(tool_choice=NamedTool("Read"))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [('{"effort": "huge"}', "effort"), ('{"tool_choice": {"tool": "a"}}', "tool_choice"),
     ('{"temprature": 1}', "temprature"),
     ('{"max_tokens": 0}', "max_tokens"), ('{"top_p": "1"}', "top_p")],
)  # fmt: skip
def test_a_setting_of_the_model_that_makes_no_sense_is_an_error_with_its_place(path, given, wrong):
    path.write_text(f'{{"model_settings": {given}}}')
    with pytest.raises(ConfigurationFileError, match=wrong):
        read_settings(path)


def test_each_model_is_opened_with_its_own_price(path):
    cheap = PRICE.replace("10.5", "1").replace("}", ', "cache_read": 0.5}')
    path.write_text(
        f'{{"prices": {{"openai:gpt-5.4": {PRICE}, "anthropic:claude-sonnet-5-5": {cheap}}}}}'
    )
    settings, env = read_settings(path), {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    prices = {
        name: settings.open(name, env).price
        for name in (None, "gpt-5.4", "gpt-5.4-2026-03-05", "openai:gpt-5.4-mini")
    }
    assert prices == {
        None: Price(2, 1, 0.5),
        "gpt-5.4": Price(2, 10.5),
        "gpt-5.4-2026-03-05": Price(2, 10.5),
        "openai:gpt-5.4-mini": None,
    }


def test_the_window_is_that_of_the_model_of_a_run(path):
    path.write_text('{"window": 32768}')
    jsonschema.validate(serde.loads(path.read_bytes()), serde.loads(SCHEMA.read_bytes()))
    settings = read_settings(path)
    assert settings.open("ollama:llama3.2", {}).window == 32_768
    assert settings.open("offline:", {}).window == 32_768


def test_it_says_how_long_to_hold_out_and_how_much_to_send_in_a_minute(path):
    path.write_text('{"retry": 30, "rate_limit": {"requests": 50, "tokens": 40000}}')
    jsonschema.validate(serde.loads(path.read_bytes()), serde.loads(SCHEMA.read_bytes()))
    settings = read_settings(path)
    assert settings.retry == Retry(deadline=30)
    assert repr(settings.rate_limit) == "RateLimit(requests=50, tokens=40000, period=60)"
    path.write_text('{"retry": 0}')
    assert read_settings(path).retry is None
    path.write_text("{}")
    assert read_settings(path).retry == Retry(deadline=600)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"window": 3}', (1, 12), "window: "),
        ('{"window": "8192"}', (1, 12), "window: "),
        ('{"retry": -1}', (1, 11), "retry: "),
        ('{"rate_limit": {}}', (1, 16), "write requests, tokens or both"),
        ('{"rate_limit": {"tokens": 1.5}}', (1, 27), "rate_limit.tokens: "),
        ('{\n  "modell": "gpt-5.4"}', (2, 13), "modell: no such setting"),
        ('{"model": 3}', (1, 11), "model: "),
        ('{"model":\n "antropic:x"}', (2, 2), "did you mean anthropic:x"),
        ('{"model": "mistral:"}', (1, 11), "no default"),
        ('{"model": "a:b"', (1, 16), "JSON"),
        ('{"sessions": "a\\u0000"}', (1, 14), "sessions: holds a NUL character"),
        ('{"hooks": {"Stop": [{"command": "\\u0000"}]}}', (1, 33), "hooks.Stop[0].command: "),
        ('{"model": "gpt-5", "model": "gpt-6"}', (1, 20), "twice"),
        (
            '{"model": 1, "model": 2,\n "prices": {"a": [{"b": 1,\n"b": {}}, ]',
            (3, 1),
            "'b' occurs twice",
        ),
        ('{"\\ud800": 1, "\\ud800": 2}', (None, None), "twice"),
        (
            '{"prices": {"gpt-5": ' + PRICE + ',\n"openai:gpt-5": ' + PRICE + "}}",
            (2, 17),
            "two prices",
        ),
        ("[]", (None, None), "object"),
        (priced(name="frob"), (1, 21), "prices.frob: "),
        ('{"prices": {"gpt-5": {"input": 1}}}', (1, 22), "prices.gpt-5.output: "),
        (priced(PRICE.replace("2,", "-2,")), (1, 32), ".input: "),
        (priced(PRICE.replace("2,", '"2",')), (1, 32), ".input: "),
        (priced(PRICE.replace("2026-11-01", "soon")), (1, 59), ".date: "),
        (priced(PRICE.replace('"2026-11-01"', "2026")), (1, 59), ".date: "),
        (priced(PRICE.replace("https://example.com", "")), (1, 83), "source"),
        (
            priced(more=f', "gpt-4o": {PRICE[:-1]}, "currency": "EUR"}}'),
            (1, 213),
            "currency",
        ),
    ],
)
def test_a_bad_file_is_refused_with_the_place_of_the_fault(path, text, place, words):
    path.write_text(text)
    with pytest.raises(ConfigurationFileError) as caught:
        read_settings(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("harm", ["folder", "pipe", "bytes", "size"])
def test_what_is_not_a_text_file_of_a_sane_size_is_refused_and_never_waited_for(path, harm):
    if harm == "folder":
        path.mkdir()
    elif harm == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"\xff\xfe" if harm == "bytes" else b" " * (1 << 20) + b"{}")
    with pytest.raises(ConfigurationFileError, match=r"settings\.json"):
        read_settings(path)
