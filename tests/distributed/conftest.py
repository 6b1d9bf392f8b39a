"""Clusters in a schema of their own, and hosts in this process that look often."""

import pytest

from greenroom.core._internal import new_id
from greenroom.distributed import Cluster, host, places
from tests.distributed.kinds import Work


@pytest.fixture
def schema():
    return new_id("c").replace("-", "_").lower()


@pytest.fixture
def make_cluster(postgres_server, schema, monkeypatch):
    """Return what makes a cluster; all of a test share one schema."""
    monkeypatch.setattr(host, "LOOK", 0.02)
    return lambda **options: Cluster(postgres_server.dsn, schema=schema, **options)


@pytest.fixture
async def cluster(make_cluster):
    async with make_cluster() as made:
        yield made


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def frozen(monkeypatch):
    """Return a set of hosts: one in it no longer looks, as if it were stopped."""
    numbers, last, look = set(), {}, places.look

    def look_unless_frozen(connection, rules, host, holder, **options):
        if host not in numbers:
            last[host] = look(connection, rules, host, holder, **options)
        return last[host]

    monkeypatch.setattr(places, "look", look_unless_frozen)
    return numbers
