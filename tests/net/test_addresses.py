"""Which addresses are public: the tables, and the tricks that have got round such tables."""

import ipaddress
import socket

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import NetworkError
from greenroom.core._internal import AddressRefusedError, NetworkTimeoutError
from greenroom.net._internal import is_public, public_address


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "64:ff9b::101:101"]
)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",  # Alibaba's metadata
        "169.254.169.254",  # metadata of most clouds
        "168.63.129.16",  # Azure's WireServer
        "192.0.0.192",  # Oracle's metadata
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "198.18.0.1",
        "203.0.113.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::",
        "2001:db8::1",
        "",
        "localhost",
        "127.1",
        "0x7f000001",
    ],
)
def test_addresses_behind_our_walls_are_not(address):
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_carried_in_another_is_no_more_public_than_by_itself(address):
    for carrier in ("::ffff:", "64:ff9b::", "::ffff:0:"):
        assert is_public(f"{carrier}{address}") == is_public(str(address))
    sixtofour = ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80))
    assert not is_public(str(sixtofour)) or is_public(str(address))


@given(st.text())
def test_what_is_no_address_is_not_public(text):
    assert not is_public(text) or ipaddress.ip_address(text)


def resolving(monkeypatch, *addresses):
    async def getaddrinfo(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)


async def test_a_public_host_gives_the_address_to_connect_to(monkeypatch):
    resolving(monkeypatch, "1.1.1.1", "1.0.0.1")
    assert await public_address("one.test", 443) == "1.1.1.1"


async def test_one_private_address_is_enough_to_refuse_a_host(monkeypatch):
    resolving(monkeypatch, "1.1.1.1", "169.254.169.254")
    with pytest.raises(AddressRefusedError, match=r"rebind\.test is at 169\.254\.169\.254"):
        await public_address("rebind.test", 443, proxied=True)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f.1", "::1"])
async def test_every_way_to_write_the_loopback_is_refused(host):
    with pytest.raises(AddressRefusedError):
        await public_address(host, 80)


async def test_an_unknown_name_is_left_to_the_proxy_where_there_is_one(monkeypatch):
    async def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(trio.socket, "getaddrinfo", unknown)
    with pytest.raises(NetworkError, match=r"nowhere\.test: the name is not known"):
        await public_address("nowhere.test", 80)
    assert await public_address("nowhere.test", 80, proxied=True) is None


async def test_a_name_that_can_not_be_encoded_is_not_known():
    with pytest.raises(NetworkError, match="the name is not known"):
        await public_address("a" * 64 + ".test", 80)


async def test_a_look_up_that_hangs_ends(monkeypatch, autojump_clock):
    async def hang(*_, **__):
        await trio.sleep_forever()

    monkeypatch.setattr(trio.socket, "getaddrinfo", hang)
    with pytest.raises(NetworkTimeoutError, match="took too long"):
        await public_address("slow.test", 80)
