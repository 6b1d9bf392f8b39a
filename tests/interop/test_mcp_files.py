"""Files that list servers of tools, as other programs write them."""

import json
from pathlib import Path

import pytest

from greenroom.core import ConfigurationError
from greenroom.interop.mcp.files import read_server_file, write_server

ENTRIES = {
    "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "${ZONE:-UTC}"}},
    "docs": {
        "type": "http",
        "url": "https://${HOST}/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    },
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": ENTRIES, "more": 1}))
    return tmp_path / ".mcp.json"


def test_variables_are_put_in_and_never_shown(path: Path) -> None:
    time, docs = read_server_file(path, {"HOST": "example.com", "TOKEN": "swordfish"})
    assert time.server is not None
    assert dict(time.server.env) == {"TZ": "UTC"}
    assert docs.server is not None
    assert docs.server.url == "https://example.com/mcp"
    assert docs.server.headers["Authorization"] == "Bearer swordfish"
    assert "swordfish" not in repr(docs.server)


def test_a_missing_variable_is_named_and_costs_that_server_alone(path: Path) -> None:
    time, docs = read_server_file(path, {"TOKEN": "swordfish"})
    assert time.server is not None
    assert docs.server is None
    assert docs.fault == "it needs the variable HOST, which is not set"


@pytest.mark.parametrize(
    ("name", "entry", "fault"),
    [
        ("a__b", {"command": "x"}, "only letters"),
        ("a", 3, "not an object"),
        ("a", {}, "it has no command"),
        ("a", {"type": "sse", "url": "https://example.com"}, "not stdio or http"),
        ("a", {"command": "x", "args": "y"}, "args are not a list"),
        ("a", {"command": "x", "env": {"A": 1}}, "env are not an object of texts"),
        ("a", {"url": "example.com"}, "no usable URL"),
        ("a", {"command": "x", "disabled": True}, "switched off"),
    ],
)
def test_a_server_that_makes_no_sense_is_listed_with_the_reason(
    tmp_path: Path, name: str, entry: object, fault: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {name: entry, "good": {"command": "x"}}}))
    bad, good = read_server_file(path, {})
    assert bad.server is None
    assert fault in bad.fault
    assert good.server is not None


@pytest.mark.parametrize("text", ["[]", "{", '{"mcpServers": []}', b"\xff\xfe{"])
def test_a_file_of_another_form_is_an_error_that_names_it(
    tmp_path: Path, text: str | bytes
) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        read_server_file(path, {})


def test_no_file_is_no_servers(tmp_path: Path) -> None:
    assert read_server_file(tmp_path / "absent.json", {}) == ()


def test_a_server_is_written_and_the_rest_of_the_file_stays(path: Path) -> None:
    assert not write_server(path, "new", {"command": "x", "args": ["${A}"]})
    assert write_server(path, "time", None)
    content = json.loads(path.read_text())
    assert content["more"] == 1
    assert list(content["mcpServers"]) == ["docs", "new"]
    assert not write_server(path, "time", None)
    with pytest.raises(ConfigurationError, match="only letters"):
        write_server(path, "a b", {"command": "x"})
    assert json.loads(path.read_text()) == content
