"""Hosts that answer over TLS, and programs that trust them or not."""

from pathlib import Path

import pytest
import trio

from greenroom.core import ConfigurationError, Done
from greenroom.distributed import AgentSpec, Host, host
from greenroom.distributed.host_client import session_path
from greenroom.distributed.places import Target
from greenroom.interop import RemoteError
from tests.distributed.kinds import ECHO

PEM = str(Path(__file__).parents[1] / "net/server.pem")
"""A certificate for 127.0.0.1, with its private key."""

OTHER_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQLq4cyptXt/3izf3
5S9Hi4Zet048nJXmlA7THHs15qKhRANCAASqz77nl7TTJcLme3iAGfgNcAUyv8+Z
2LhudME7Fq/Nk+IBnlrl5O6WFI1i9RoqZRiW3D6xM5KPCBBudiDKDZNA
-----END PRIVATE KEY-----
"""
LOCKED_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg6XvpVnVV2jwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEGH67IKHBOUtyecQg7ezqAIEgZAs
egPyZhAGUyBN/9sLoLthl9TAzb3qdXjDDubtIEVHbpnHIcySFYMqsXd10LVSSOnt
gqCe992yd5k6BG/Rdy2pD1nCVuuZsjYSkLf6C48y8axEqfPPJCbTvklRVHUsI2v9
dC0O1yzpRAE7vMYk8OtV5icDoA4VpQHv1k5CMPciV0eUXYRj5hg1RhMId744+fk=
-----END ENCRYPTED PRIVATE KEY-----
"""


@pytest.fixture
async def secure_host(cluster, nursery):
    """Run a host that answers over TLS."""
    return await nursery.start(Host(cluster, [ECHO], certificate=PEM).run)


async def test_a_host_answers_over_tls(cluster, secure_host, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    monkeypatch.setattr(host, "LOOK", 60.0)  # what is asked comes by TLS alone
    (info,) = await cluster.hosts()
    assert info.address.startswith("https://127.0.0.1:")
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        async with agent.subscribe() as chunks:
            assert (await agent.ask("hello", id="i1")).text == "hello"
            while not isinstance(chunk := await anext(chunks), Done):
                pass
        assert chunk.inputs == ("i1",)
        client, body = await cluster.links.client(), {"x": "x" * (32 << 20)}
        path = session_path(agent.session_id, "interrupt")
        with pytest.raises(RemoteError) as caught:
            await client.ask(Target(secure_host, info.address), "POST", path, dict, body)
        assert caught.value.status == 413
        assert (await agent.shutdown()).status == "completed"


async def test_a_host_that_is_not_trusted_is_an_error_at_once_and_said_once(
    cluster, secure_host, caplog
):
    with trio.fail_after(50):  # before it could be one that no host answers for a minute
        agent = await cluster.spawn(AgentSpec("echo"))
        for text in ("one", "two"):
            assert (await agent.ask(text)).text == text  # through the database alone
        with pytest.raises(ConfigurationError, match="not trusted"):
            await agent.interrupt()
        with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
            async with agent.subscribe() as chunks:
                await anext(chunks)
    assert caplog.text.count("not trusted") == 1


async def test_clients_without_tls_are_cut_off_and_the_host_goes_on(
    cluster, secure_host, monkeypatch, caplog
):
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    (info,) = await cluster.hosts()
    port = int(info.address.rpartition(":")[2])
    with trio.fail_after(60):
        for said in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00" * 100, b""):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(said)
            await stream.send_eof()
            while await stream.receive_some():  # an alert of TLS, perhaps
                pass
            await stream.aclose()
        agent = await cluster.spawn(AgentSpec("echo"))
        assert (await agent.ask("hello")).text == "hello"
        assert await agent.pending() == ()
    assert not caplog.records


async def test_a_host_for_other_machines_may_have_a_certificate_in_place_of_a_word(make_cluster):
    cluster = make_cluster(secret="a secret of the tests' own")
    with pytest.raises(ConfigurationError, match="not encrypted") as caught:
        Host(cluster, [ECHO], bind="0.0.0.0:0")
    assert "certificate" in caught.value.hint
    Host(cluster, [ECHO], bind="0.0.0.0:0", certificate=PEM)
    Host(cluster, [ECHO], bind="0.0.0.0:0", certificate=PEM, key=PEM)


@pytest.mark.parametrize(
    ("certificate", "key", "problem"),
    [
        ("missing.pem", None, "missing.pem can't be read: No such file"),
        (PEM, "missing.key", "missing.key can't be read: No such file"),
        ("bad.pem", None, "bad.pem: no certificate with its private key"),
        (PEM, "other.key", "other.key: no certificate .*MISMATCH"),
        (PEM, "locked.key", "is encrypted"),
        (None, PEM, "needs its certificate"),
    ],
)
async def test_a_certificate_that_can_not_be_used_is_an_error_of_the_host(
    cluster, tmp_path, monkeypatch, certificate, key, problem
):
    monkeypatch.chdir(tmp_path)
    Path("bad.pem").write_text("rubbish")
    Path("other.key").write_text(OTHER_KEY)
    Path("locked.key").write_text(LOCKED_KEY)
    with pytest.raises(ConfigurationError, match=problem) as caught:
        Host(cluster, [ECHO], certificate=certificate, key=key)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://127.0.0.1:80"),
        ("10.0.0.7", "http://127.0.0.1:80"),
        ("box.example.org", "http://box.example.org:80"),
        ("0.0.0.0", "http://this:80"),
        ("::", "http://this:80"),
    ],
)
def test_a_host_is_known_by_the_name_at_which_it_listens(monkeypatch, asked, known):
    monkeypatch.setattr("socket.gethostname", lambda: "This")
    assert host._reachable("http://127.0.0.1:80", asked) == known
