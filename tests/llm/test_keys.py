"""Keys in files that a variable names."""

import os

import pytest

from greenroom.core import ConfigurationError
from greenroom.llm import AnthropicProvider, OpenAIProvider, open_model
from greenroom.llm._internal import HOSTS, choose_model
from greenroom.llm.keys import find_key_variable, read_key
from greenroom.llm.openai import OpenAIEmbedder
from greenroom.testing.concealment import Concealment

NAME = "ANTHROPIC_API_KEY"
FILE = "ANTHROPIC_API_KEY_FILE"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a key"
    path.write_text("sk-in-a-file\n")
    path.chmod(0o600)
    return path


def test_a_file_holds_the_key_and_the_variable_itself_counts_more(file):
    env = {FILE: f" {file} "}
    assert read_key(env, NAME) == "sk-in-a-file"
    assert read_key({**env, NAME: "sk-itself"}, NAME) == "sk-itself"
    assert read_key({**env, NAME: " "}, NAME) == "sk-in-a-file"
    assert read_key({FILE: ""}, NAME) == read_key({}, NAME) == ""
    assert find_key_variable(env, ["OPENAI_API_KEY", NAME]) == FILE
    file.chmod(0o400)
    assert read_key(env, NAME) == "sk-in-a-file"


def test_a_home_folder_and_links_may_be_on_the_way(file, monkeypatch):
    (file.parent / "link").symlink_to(file)
    monkeypatch.setenv("HOME", str(file.parent))
    assert read_key({FILE: "~/link"}, NAME) == "sk-in-a-file"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_that_is_open_to_others_is_refused_and_the_key_is_not_told(file, mode):
    file.chmod(mode)
    with pytest.raises(
        ConfigurationError, match=f"is open to other users .mode {mode:04o}"
    ) as told:
        read_key({FILE: str(file)}, NAME)
    assert told.value.hint == f"chmod 600 '{file}'"
    assert "sk-in-a-file" not in str(told.value)


def test_what_is_not_a_key_is_refused_and_nothing_waits(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, content in {"empty": b"\n", "long": b"k" * 20_000, "blank": b" "}.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    for name, says in {
        "pipe": "is not a file",
        ".": "can't be read: Is a directory",
        "nowhere": "can't be read: No such file or directory",
        "empty": "does not hold a key",
        "long": "does not hold a key",
    }.items():
        with pytest.raises(ConfigurationError, match=says) as told:
            read_key({FILE: str(tmp_path / name)}, NAME)
        assert str(tmp_path / name) in told.value.message
        assert told.value.hint
    with pytest.raises(
        ConfigurationError, match="key, which ANTHROPIC_API_KEY_FILE names, is not an"
    ):
        read_key({FILE: "key"}, NAME)


def test_a_key_with_letters_that_no_header_can_have_is_refused(file):
    file.write_bytes("sk-größer".encode())
    with pytest.raises(ConfigurationError, match="has characters that a key can't have"):
        AnthropicProvider("claude-sonnet-5", env={FILE: str(file)})


def test_every_way_to_open_a_model_reads_it(file):
    env = {FILE: str(file)}
    assert choose_model(env).reason == f"since {FILE} is set"
    assert open_model(None, env, retry=None)._endpoint.secrets == ("sk-in-a-file", "")
    token = AnthropicProvider("claude-sonnet-5", env={"ANTHROPIC_AUTH_TOKEN_FILE": str(file)})
    assert token._endpoint.secrets == ("", "sk-in-a-file")
    for host in HOSTS.values():
        for variable in host.key_variables:
            assert host.key({f"{variable}_FILE": str(file)}) == "sk-in-a-file"
    env = {"OPENAI_API_KEY_FILE": str(file)}
    assert OpenAIProvider("gpt-5.4", env=env)._endpoint.secrets == ("sk-in-a-file",)
    assert OpenAIEmbedder(env=env)._endpoint.secrets == ("sk-in-a-file",)
    assert open_model("groq:m", {"GROQ_API_KEY_FILE": str(file)}, retry=None)._endpoint.secrets == (
        "sk-in-a-file",
    )


def test_a_key_that_is_passed_needs_no_file():
    env = {"OPENAI_API_KEY_FILE": "/nowhere", FILE: "/nowhere"}
    assert OpenAIProvider("gpt-5.4", api_key="sk-1", env=env)._endpoint.secrets == ("sk-1",)
    provider = AnthropicProvider("claude-sonnet-5", api_key="sk-1", env=env)
    assert provider._endpoint.secrets == ("sk-1", "")


def test_recordings_conceal_it(file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(file))
    monkeypatch.setenv("GROQ_API_KEY_FILE", "/nowhere")
    assert b"sk-in-a-file" not in b"".join(Concealment().conceal([b"it is sk-in-a-file."]))
