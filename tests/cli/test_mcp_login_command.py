"""`greenroom mcp login` and `logout`."""

import pytest
import trio

pytest.importorskip("mcp", reason="needs the extra mcp")

from greenroom.cli import mcp_command
from greenroom.cli.command_options import MCPOptions
from tests.interop import test_mcp_login
from tests.interop.test_mcp_login import log_in

place = test_mcp_login.place  # a fixture

# The SDK leaves the streams of responses to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http.*:ResourceWarning")


async def test_a_person_logs_in_and_out(project, env, place, monkeypatch, capfd) -> None:
    authority, url = place
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project)
    options = MCPOptions(name="demo")
    await mcp_command.add_server(MCPOptions(name="demo", place=url))
    assert await mcp_command.test_servers(options) == 1
    assert "wants a login (greenroom mcp login demo)" in capfd.readouterr().out
    told = []

    def tell(*lines: str) -> None:
        told.extend(lines)
        if lines[-1].startswith("http"):
            nursery.start_soon(log_in, lines[-1])

    monkeypatch.setattr(mcp_command, "tell", tell)
    async with trio.open_nursery() as nursery:
        assert await mcp_command.log_in(options) == 0
    assert told[0].startswith("open this page")
    assert capfd.readouterr().out == "logged in at demo: 1 tool\n"
    assert await mcp_command.test_servers(options) == 0
    assert "mcp__demo__add" in capfd.readouterr().out
    assert authority.asked == 1
    assert [await mcp_command.log_out(options), await mcp_command.log_out(options)] == [0, 1]
    assert "it can't be ended there" in told[-2]
    assert authority.known
    assert await mcp_command.test_servers(options) == 1


@pytest.mark.parametrize("status", [200, 503])
async def test_a_login_is_ended_where_it_was_made(
    project,
    env,
    place,
    monkeypatch,
    status,
) -> None:
    authority, url = place
    authority.revocation = status
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project)
    await mcp_command.add_server(MCPOptions(name="demo", place=url))
    told = []

    def tell(*lines: str) -> None:
        told.extend(lines)
        if lines[-1].startswith("http"):
            nursery.start_soon(log_in, lines[-1])

    monkeypatch.setattr(mcp_command, "tell", tell)
    async with trio.open_nursery() as nursery:
        assert await mcp_command.log_in(MCPOptions(name="demo")) == 0
    assert authority.known
    assert authority.renewals
    assert await mcp_command.log_out(MCPOptions(name="demo")) == 0
    if status == 200:
        assert told[-1] == "forgot the login at demo; it is ended there, too"
        assert not authority.known | authority.renewals
    else:
        assert "refused: 503" in told[-1]
        assert "until it expires" in told[-1]
    assert await mcp_command.log_out(MCPOptions(name="demo")) == 1


@pytest.mark.parametrize("words", [["stdio"], ["token"], ["nowhere"]])
def test_there_is_no_login_where_none_is_wanted(run, words) -> None:
    run("mcp", "add", "stdio", "program")
    run("mcp", "add", "--header", "Authorization: t", "token", "https://example.com/mcp")
    done = run("mcp", "login", *words)
    assert done.code == 2
    assert "there is no" in done.err
    assert run("mcp", "logout", *words).code == 2
