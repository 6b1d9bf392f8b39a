"""The published tokenizer: what it counts, and what is said where there is none."""

import sys
import threading

import pytest
import trio

from greenroom.core import ConfigurationError, Message, ToolUseBlock, Usage
from greenroom.llm import (
    EstimatedCounter,
    ModelRequest,
    TokenCounter,
    tokenizers,
    tokens as counters,
)

WORDS = {b"he": 256, b"ll": 257, b"hell": 258, b"hello": 259}


@pytest.fixture
def tiktoken():
    return pytest.importorskip("tiktoken", reason="the extra `tokenizer` is not installed")


@pytest.fixture
def tiny(tiktoken, monkeypatch):
    """One token for "hello", one for each other byte, instead of tables from the network."""
    ranks = {bytes([byte]): byte for byte in range(256)} | WORDS
    encoding = tiktoken.Encoding(
        "tiny", pat_str=r"\p{L}+|\s+|[^\s\p{L}]+", mergeable_ranks=ranks, special_tokens={}
    )
    asked = []

    def load(model):
        asked.append((model, threading.current_thread()))
        return encoding

    monkeypatch.setattr(tiktoken, "encoding_for_model", load)
    return asked


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello", 1), ("hello hello", 3), ("<|endoftext|>", 13), ("hello\ud800", 4)],
)
async def test_a_text_is_counted_exactly(text, tokens, tiny):
    counter = await EstimatedCounter.with_tokenizer("gpt-4o")
    assert counter.count([Message.user(text)]) - counter.count([Message.user("")]) == tokens


@pytest.mark.parametrize("name", ["gpt-5.4", "openai:gpt-5.4", "azure:gpt-5.4"])
async def test_the_tables_of_the_model_are_loaded_in_a_thread(name, tiny):
    await EstimatedCounter.with_tokenizer(name)
    [(model, thread)] = tiny
    assert model == "gpt-5.4"
    assert thread is not threading.current_thread()


async def test_a_counter_uses_it_for_every_text_and_still_learns(tiny):
    counter = await EstimatedCounter.with_tokenizer("gpt-4o")
    assert isinstance(counter, TokenCounter)
    assert counter.error == 0.3
    assert counter.count([Message.user("hello hello")]) == 4 + 3
    call = Message("assistant", (ToolUseBlock("c", "hello", {}, raw_input="hello"),))
    assert counter.count([call]) == 4 + 2 + 7
    request = ModelRequest(messages=[Message.user("hello")], system="hello hello hello")
    assert counter.count(request, model="claude-x") == 3 + 4 + 1 + 5  # no habits of a vendor
    counter.observe(request, Usage(input_tokens=20))
    assert counter.count(request) == 20


async def test_of_a_long_text_the_beginning_is_encoded(tiny, monkeypatch):
    monkeypatch.setattr(counters, "_LONGEST", 600)
    counter = await EstimatedCounter.with_tokenizer("gpt-4o")
    assert counter.count([Message.user("hello " * 100)]) == 4 + 200
    assert counter.count([Message.user("hello " * 1_000)]) == pytest.approx(2_000, rel=0.01)


async def test_without_the_extra_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigurationError) as caught:
        await EstimatedCounter.with_tokenizer("gpt-5.4")
    assert "pip install 'greenroom[tokenizer]'" in caught.value.hint


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-5-5", "gpt-6.1-sol", "m"])
async def test_a_model_without_a_published_tokenizer_is_an_error(name, tiktoken):
    with pytest.raises(ConfigurationError, match="no tokenizer is published") as caught:
        await EstimatedCounter.with_tokenizer(name)
    assert "EstimatedCounter()" in caught.value.hint


@pytest.mark.parametrize("error", [ConnectionError("no network"), ValueError("wrong hash")])
async def test_without_its_tables_it_says_where_to_put_them(error, tiktoken, monkeypatch):
    def load(model):
        raise error

    monkeypatch.setattr(tiktoken, "encoding_for_model", load)
    with pytest.raises(ConfigurationError, match="could not be loaded") as caught:
        await EstimatedCounter.with_tokenizer("gpt-4o")
    assert "TIKTOKEN_CACHE_DIR" in caught.value.hint
    assert caught.value.__cause__ is error


async def test_a_download_that_hangs_is_given_up(tiktoken, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(tokenizers, "_SECONDS", 0.01)
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda _model: release.wait(60))
    try:
        with trio.fail_after(60), pytest.raises(ConfigurationError, match=r"within 0\.01 seconds"):
            await EstimatedCounter.with_tokenizer("gpt-4o")
    finally:
        release.set()
