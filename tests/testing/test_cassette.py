"""Cassettes: recorded once, replayed byte by byte, and never a secret in the file."""

import base64
import json
import stat
from urllib.parse import quote

import pytest
import trio
from trio.testing import MockClock

from greenroom import PermissionManager, PermissionRule, ToolRegistry, coder, tool
from greenroom.core import ConfigurationError, Message, ModelRequest
from greenroom.llm import AnthropicProvider, OpenAIProvider
from greenroom.net import HttpClient
from greenroom.testing import cassette, cassettes, forbid_model_calls
from greenroom.testing._internal import CassetteError, run_agent_async
from greenroom.testing.concealment import PLACEHOLDER, Concealment
from tests.llm.server import Answer, model_server

KEY = "sk-proj/9f+Qz-w_8812\u00e9x".replace("\u00e9", "e")
STREAM = {"content-type": "text/event-stream", "set-cookie": "sid=c00k1e-value; Path=/"}


def event(**delta):
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def hello(text="hello"):
    return ModelRequest(messages=(Message.user(text),))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tapes" / "hello.json"


def provider(url, client, key=KEY, **options):
    return OpenAIProvider("m", base_url=f"{url}/v1", api_key=key, client=client, env={}, **options)


async def test_a_conversation_is_recorded_once_and_replayed_without_a_server_or_a_key(path):
    answers = iter(["one", "two", "three"])
    said = lambda _: Answer((event(content=next(answers)), END), headers=STREAM)  # noqa: E731
    async with model_server(said) as server, cassette(path) as client:
        assert not client.is_replay
        llm = provider(server.url, client)
        texts = [(await llm.generate(hello(text))).text for text in ("a", "b", "a")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_bytes())["version"] == 1
    with forbid_model_calls():
        async with cassette(path) as client:
            assert client.is_replay
            llm = provider("http://127.0.0.1:9", client, key="another")
            again = [(await llm.generate(hello(text))).text for text in ("b", "a", "a")]
            assert client.unplayed_count == 0
            with pytest.raises(CassetteError, match="all that was recorded has been replayed"):
                await llm.generate(hello("a"))
    assert texts == ["one", "two", "three"]
    assert again == ["two", "one", "three"]  # equal requests in their order


async def test_bytes_and_the_borders_of_pieces_are_replayed_as_they_were(path):
    pieces = (b"data: \xf0\x9f", b"\x98\x80\xff\x00\n", b"\n", "data: ü\n\n".encode())
    async with model_server(Answer(pieces, headers=STREAM)) as server:
        read = []
        for _ in range(2):
            async with cassette(path) as client:
                request = client.stream("POST", f"{server.url}/v1", content=b"\x00\xff")
                async with request as response:
                    read.append([piece async for piece in response.chunks()])
                    assert response.headers["content-type"] == "text/event-stream"
    assert b"".join(read[0]) == b"".join(pieces)
    assert read[0] == read[1]
    assert len(server.requests) == 1


def forms(secret):
    coded = base64.b64encode(secret.encode()).decode()
    yield secret
    yield secret.replace("/", r"\/")
    yield "".join(f"\\u{ord(letter):04x}" for letter in secret)
    yield json.dumps(json.dumps({"key": secret.replace("/", r"\/")}))
    yield quote(secret, safe="")
    for before in ("", "a", "ab", "user:"):
        for after in ("", "z", "zz"):
            yield base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    yield base64.urlsafe_b64encode(f"Bearer {secret}".encode()).decode()
    yield coded.replace("/", r"\/")


@pytest.mark.parametrize("secret", [KEY, "abcd", "k?y>~~//\u00ff\u00fe"])
@pytest.mark.parametrize("cut", [1, 3, 1000])
def test_a_secret_is_found_in_every_form_wherever_its_pieces_are_cut(secret, cut):
    concealment = Concealment([secret])
    for form in forms(secret):
        body = f"<{form}>".encode()
        pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
        concealed = concealment.conceal(pieces)
        assert len(concealed) == len(pieces)
        rest = b"".join(concealed)
        assert PLACEHOLDER.encode() in rest, form
        assert rest.startswith(b"<")
        assert rest.endswith(b">")
        assert len(rest) - len(PLACEHOLDER) <= 40 or len(body) > 100, form


def test_what_can_not_be_taken_out_is_noticed():
    twice = "".join(f"%5Cu{ord(letter):04x}" for letter in KEY).encode()
    concealment = Concealment([KEY])
    assert concealment.conceal([twice]) == [twice]
    assert concealment.has_secret(quote(KEY, safe="").replace("%", "\\u0025").encode())
    assert not concealment.has_secret(b"".join(concealment.conceal([f"<{KEY}>".encode()])))


def test_what_is_no_secret_stays_as_it_is():
    pieces = [b"data: sk-", b"proj is a prefix, org-chart is a word, \xff and so on"]
    assert Concealment([KEY]).conceal(pieces) == pieces


OF_ANSWER = {
    "x-request-id": KEY,
    "openai-organization": "org-of-the-answer",
    "x-ratelimit-reset-tokens": "2026-11-22T10:00:00Z",
}


async def test_no_secret_that_the_other_side_echoes_reaches_the_file(path):
    echo = "".join(f"{form} " for form in forms(KEY))

    def said(request):
        seen = {
            **request.headers,
            "echo": echo,
            "org": "org-Abcdefgh12345678",
            "my": "my-own-word",
            "whose": "org-of-the-answer",
        }
        piece = event(content=json.dumps(seen))
        return Answer((piece[:150], piece[150:], END), headers=STREAM | OF_ANSWER)

    env = {"OPENAI_ORG_ID": "acme-inc", "OPENAI_PROJECT_ID": "proj-77777"}
    async with model_server(said) as server:
        async with cassette(path, secrets=["my-own-word"]) as client:
            llm = OpenAIProvider(
                "m",
                base_url=f"{server.url}/v1",
                api_key=KEY,
                client=client,
                env=env,
                headers={
                    "cookie": "sid=abc123xyz; theme=dark",
                    "x-custom": "t0ken-with-20-letters",
                },
            )
            await llm.generate(hello(f"My key is {KEY}."))
    text = path.read_text()
    for secret in (
        *forms(KEY),
        "acme-inc",
        "proj-77777",
        "org-of-the-answer",
        "abc123xyz",
        "t0ken-with-20-letters",
        "c00k1e-value",
        "my-own-word",
        "org-Abcdefgh12345678",
    ):
        assert secret not in text
    assert json.loads(text)["exchanges"][0]["request"].keys() == {"method", "url", "json"}
    assert "2026-11-22T10:00:00Z" in text  # which is no secret, though it is about tokens
    async with cassette(path) as client:  # the placeholder stands for another key as well
        await provider("http://127.0.0.1:9", client, key="other-key").generate(
            hello("My key is other-key.")
        )


async def test_a_made_up_key_is_no_secret_and_a_word_that_is_named_is_one(path, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "ollama")
    answer = Answer((event(content="ollama, word"), END), headers=STREAM)
    async with model_server(answer) as server, cassette(path, secrets=["word"]) as client:
        await provider(server.url, client, key="test").generate(hello("a test of ollama"))
    monkeypatch.delenv("OLLAMA_API_KEY")
    async with cassette(path) as client:
        reply = await provider("http://127.0.0.1:9", client, key="k").generate(
            hello("a test of ollama")
        )
    assert reply.text == "ollama, [secret]"


@pytest.mark.parametrize("name", ["secrets", "ignore"])
async def test_a_text_is_not_taken_for_the_letters_in_it(path, name):
    with pytest.raises(TypeError, match=rf"{name} are several: write {name}=\[…\]"):
        async with cassette(path, **{name: "a-passphrase"}):
            pass


async def test_a_whole_run_is_replayed_on_a_clock_that_jumps(path):
    call = {"index": 0, "id": "c1", "function": {"name": "bake", "arguments": '{"loaves": 2}'}}
    called = event(tool_calls=[call])
    answers = iter(
        [(called, END.replace(b'"stop"', b'"tool_calls"')), (event(content="Done."), END)]
    )

    async def run(url, client):
        tools, rules = ToolRegistry([bake]), PermissionManager([PermissionRule.allow_tool("bake")])
        return await run_agent_async(coder, provider(url, client), tools, rules, inputs="Bread.")

    async with model_server(lambda _: Answer(next(answers), headers=STREAM)) as server:
        async with cassette(path) as client:
            recorded = await run(server.url, client)

    def replay():
        async def main():
            async with cassette(path) as client:
                return await run("http://127.0.0.1:9", client)

        return trio.run(main, clock=MockClock(autojump_threshold=0))

    with forbid_model_calls():
        replayed = await trio.to_thread.run_sync(replay)
    assert recorded.text == replayed.text == "Done."


@tool(timeout=7200)
async def bake(loaves: int) -> str:
    """Bake bread."""
    if isinstance(trio.lowlevel.current_clock(), MockClock):
        await trio.sleep(3600)
    return f"{loaves} loaves"


async def test_anthropic_s_key_is_as_secret(path):
    error = {"type": "error", "error": {"type": "authentication_error", "message": f"no: {KEY}"}}
    async with model_server(Answer.error(401, error)) as server:
        for _ in range(2):
            async with cassette(path) as client:
                llm = AnthropicProvider(
                    "m", api_key=KEY, base_url=server.url, client=client, env={}
                )
                with pytest.raises(Exception, match="no: ") as caught:
                    await llm.generate(hello())
                assert KEY not in str(caught.value)
    assert KEY not in path.read_text()
    assert len(server.requests) == 1


async def test_a_secret_that_is_spread_over_events_is_not_written(path):
    parts = [event(content=KEY[:7]), event(content=KEY[7:]), END]
    async with model_server(Answer(tuple(parts), headers=STREAM)) as server:
        with pytest.raises(CassetteError, match="spread over several events"):
            async with cassette(path) as client:
                await provider(server.url, client).generate(hello())
    assert not path.exists()


async def test_a_request_that_was_not_recorded_shows_the_difference(path):
    async with model_server(Answer((event(content="x"), END), headers=STREAM)) as server:
        async with cassette(path) as client:
            await provider(server.url, client).generate(hello("What is the weather in Oslo?"))
        async with cassette(path) as client:
            with pytest.raises(CassetteError) as caught:
                await provider(server.url, client).generate(hello("What is the weather in Rome?"))
    said = str(caught.value)
    assert '-      "content": "What is the weather in Oslo?"' in said
    assert '+      "content": "What is the weather in Rome?"' in said
    assert "mode='record'" in said


async def test_what_a_block_that_fails_has_recorded_is_not_written(path):
    async with model_server(Answer((event(content="x"), END), headers=STREAM)) as server:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with cassette(path) as client:
                await provider(server.url, client).generate(hello())
                raise ZeroDivisionError
    assert not path.exists()


async def test_an_answer_that_was_left_early_ends_there(path):
    answer = Answer((event(content="one"), event(content="two")), end="hang", headers=STREAM)
    async with model_server(answer) as server:
        async with cassette(path) as client:
            async with provider(server.url, client).stream(hello()) as stream:
                await anext(stream)
    async with cassette(path) as client:
        with pytest.raises(Exception, match="the recording ends here"):
            await provider(server.url, client).generate(hello())


async def test_modes(path):
    answer = Answer((event(content="x"), END), headers=STREAM)
    with pytest.raises(CassetteError, match="can't be read"):
        async with cassette(path, mode="replay"):
            pass
    with forbid_model_calls():
        for mode in ("auto", "record"):
            with pytest.raises(CassetteError, match="would have to be recorded"):
                async with cassette(path, mode=mode):
                    pass
    with pytest.raises(ConfigurationError, match="'rekord' is not a mode"):
        async with cassette(path, mode="rekord"):
            pass
    async with model_server(answer) as server, HttpClient() as own:
        for _ in range(2):
            async with cassette(path, mode="record", client=own) as client:
                await provider(server.url, client).generate(hello())
        assert len(server.requests) == 2
        assert own.statistics().idle == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"format": "greenroom cassette", "version": 2, "exchanges": []}',
        '{"format": "greenroom cassette", "version": 1, "exchanges": [{"request": {}}]}',
    ],
)
async def test_what_is_no_cassette_is_refused(path, text):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(CassetteError, match=r"hello\.json can't be read: .*mode='record'"):
        async with cassette(path):
            pass


async def test_its_size_is_bounded(path, monkeypatch):
    monkeypatch.setattr(cassettes, "MAX_SIZE", 10_000)
    large = Answer((event(content="x" * 20_000), END), headers=STREAM)
    async with model_server(large) as server:
        with pytest.raises(CassetteError, match="would be larger"):
            async with cassette(path) as client:
                await provider(server.url, client).generate(hello())
    assert not path.exists()
    monkeypatch.setattr(cassettes, "MAX_SIZE", 10)
    path.parent.mkdir(exist_ok=True)
    path.write_text("{" + " " * 20 + "}")
    with pytest.raises(CassetteError, match="larger than"):
        async with cassette(path):
            pass
