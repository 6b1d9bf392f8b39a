"""Any text is a session id, and no two of them meet in one folder, on disks that fold names either.

    GREENROOM_IDS=long pytest tests/session/test_folder_names.py

makes, loads, lists and forks 5,000 of them in each store, and prints its seeds.
"""

import os
import random
import re
import secrets
import shutil
import unicodedata
from pathlib import Path

from greenroom.core import Message
from greenroom.session import AgentSession
from greenroom.session.folder_names import folder_name
from tests.conftest import few

IS_LONG = os.environ.get("GREENROOM_IDS") == "long"
PIECES = [
    "ann", "Ann", "ANN", "@x.org", "/", "\\", "..", ".", "~", "CON", "nul", " ", "-", "_", "%",
    "\u00e9", "e\u0301", "\u212b", "\u00c5", "ß", "ss", "ſ", "K", "k", "İ", "i", "\u202e", "1",
]  # fmt: skip


def random_ids(count):
    seed = secrets.randbits(32) if IS_LONG else 1
    print("seed", seed)
    rng = random.Random(seed)
    found = {"x" * 200, "..", "CON", "ann@x.org", "org/1", "Ann", "ann"}
    while len(found) < count:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12)))
        found.add(text if rng.random() < 0.9 else (text * 40)[: rng.randint(90, 200)])
    return sorted(found)


def folded(name):
    """What a disk that folds case and normalizes may take a name for."""
    return unicodedata.normalize("NFKD", name.casefold()).upper().lower()


def test_no_two_ids_have_one_folder_on_a_disk_that_folds_names():
    ids = random_ids(5_000)
    names = [folder_name(each) for each in ids]
    assert len({folded(name) for name in names}) == len(ids)
    for name in names:
        assert re.fullmatch(r"[a-z0-9._-]{0,100}(~[0-9a-f]{32})?", name)
        assert name not in {"", ".", ".."}
        assert len(name) <= 100


def test_a_plain_id_is_the_name_and_no_other_id_can_have_that_name():
    for plain in ("s-7k2m9q4x1zt0", "a.b", "con", "1", "x" * 100):
        assert folder_name(plain) == plain
    hashed = folder_name("Ann")
    assert folder_name(hashed) not in {hashed, "ann"}


async def test_texts_make_load_list_and_fork(store):
    ids = random_ids(5_000 if IS_LONG else few(60))
    for each in ids:
        session = AgentSession.new("coder", session_id=each, store=store)
        session.add_message(Message.user(each))
        await session.save()
    assert sorted(each.session_id for each in await store.list_all()) == ids
    for each in ids:
        session = await AgentSession.load(each, store=store)
        assert session.history[0].text == each
        assert (await session.fork()).forked_from.session_id == each


async def test_a_folder_of_before_stays_where_it_is(files):
    root = Path(files.folder("mine")).parent
    for old in ("Ann", "x" * 120):
        session = AgentSession.new("coder", session_id="mine", store=files)
        session.add_message(Message.user(old))
        await session.save()
        about = (root / "mine" / "metadata.json").read_text()
        (root / "mine" / "metadata.json").write_text(about.replace('"mine"', f'"{old}"'))
        shutil.move(root / "mine", root / old)
        loaded = await AgentSession.load(old, store=files)
        loaded.add_message(Message.user("more"))
        await loaded.save()
        assert files.folder(old) == str(root / old)
    assert sorted(os.listdir(root)) == sorted(["Ann", "x" * 120])
    assert {each.session_id for each in await files.list_all()} == {"Ann", "x" * 120}
    assert files.folder("ANN") != files.folder("ann")
