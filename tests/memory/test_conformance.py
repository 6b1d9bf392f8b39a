"""Every memory of ours passes the one suite, and the suite refuses what is none."""

import pytest

from greenroom.core._internal import new_id
from greenroom.memory import Entry, PostgresMemory, SQLiteMemory
from greenroom.testing import check_memory
from greenroom.testing.memories import MEMORY_CHECKS


@pytest.fixture(params=["memory", "file", "postgres"])
def open_memory(request, tmp_path):
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        schema = new_id("m").replace("-", "_")
        return lambda: PostgresMemory(server.dsn, schema=schema)
    if request.param == "file":
        return lambda: SQLiteMemory(tmp_path / "memory.db")
    memory = SQLiteMemory()
    return lambda: memory


@pytest.mark.parametrize("check", MEMORY_CHECKS)
async def test_a_memory_passes(check, open_memory):
    await check(open_memory)


class Careless(SQLiteMemory):
    """Does one thing wrong."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    async def recall(self, query, *, limit=5, threshold=0.0, where=None):
        if self.fault == "no filter":
            where = None
        found = await super().recall(query, limit=limit, threshold=threshold, where=where)
        return found[::-1] if self.fault == "order" else found

    async def forget(self, id, /):
        return True if self.fault == "forget" else await super().forget(id)

    async def add(self, text, /, **about):
        return await super().add(text.strip() if self.fault == "text" else text or "x", **about)


@pytest.mark.parametrize("fault", ["no filter", "order", "forget", "blank"])
async def test_a_mutant_is_caught(fault):
    memory = Careless(fault)
    with pytest.raises((AssertionError, ValueError)) as caught:
        await check_memory(lambda: memory)
    assert "in the check" in caught.value.__notes__[-1]


def test_an_entry_is_made_of_what_a_memory_is_given():
    made = Entry.of("e-1", "Be brief.", origin="user", turn=3, topic="style", pages=2)
    assert (made.origin, made.session_id, made.turn) == ("user", "", 3)
    assert made.metadata == {"topic": "style", "pages": 2}
    assert made.created_at.tzinfo is not None
    assert Entry.of("e-2", "Be brief.").origin == "program"
    for wrong in ({"origin": "nobody"}, {"turn": "first"}):
        with pytest.raises(ValueError, match="this is not an entry"):
            Entry.of("e-3", "Be brief.", **wrong)
