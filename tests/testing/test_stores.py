"""The checks for stores can fail: each has a broken store that it catches."""

import msgspec
import pytest
import trio
import trio.testing

from greenroom.core import SessionStorageError, utc_now
from greenroom.session import (
    START,
    AgentSession,
    InMemoryStore,
    SessionCorruptError,
    SessionPage,
    StoredSession,
    memory_store,
)
from greenroom.session._internal import History, encode_line
from greenroom.testing import StoreUnderTest, check_session_store
from greenroom.testing._internal import SESSION_STORE_CHECKS
from greenroom.testing.session_store_contents import check_equal, expect_error
from greenroom.testing.session_store_outcomes import a_line_whose_fate_is_unknown_is_stored_once

Writer = memory_store._MemoryWriter


class BrokenStore(InMemoryStore):
    """A memory store whose writers are of another class."""

    writer = Writer

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        writer.__class__ = self.writer
        return writer


class Case(StoreUnderTest):
    def __init__(self, store):
        self.store = store

    async def open(self):
        return self.store

    async def lose_lock(self, session_id):
        self.store._sessions[session_id].is_locked = False

    async def remove(self, session_id):
        del self.store._sessions[session_id]

    async def damage(self, session_id, line):
        history = self.store._sessions[session_id].history
        lines = bytes(history).splitlines(keepends=True)
        lines[line] = lines[line].replace(b'"message"', b'"massage"')
        history[:] = b"".join(lines)


def with_writer(**methods):
    writer = type("BrokenWriter", (Writer,), methods)
    return type("Broken", (BrokenStore,), {"writer": writer})


def with_store(**methods):
    return type("Broken", (BrokenStore,), methods)


async def forgets_lineage(self, metadata):
    await Writer.write_metadata(self, msgspec.structs.replace(metadata, parent_session_id=None))


async def keeps_the_first_description(self, metadata):
    if self._session.metadata is None:
        await Writer.write_metadata(self, metadata)


async def describes_nothing_without_lines(self, metadata):
    if self._session.history:
        await Writer.write_metadata(self, metadata)


def loses_lines(is_lost):
    async def append(self, line, at, *, flush=True):
        if not is_lost(line, at):
            await Writer.append(self, line, at, flush=flush)

    return append


async def appends_twice(self, line, at, *, flush=True):
    await Writer.append(self, line, at)
    self._session.history += line


async def refuses_long_lines(self, line, at, *, flush=True):
    if len(line) > 1_000_000:
        raise SessionStorageError("too long")
    await Writer.append(self, line, at)


async def appends_anywhere(self, line, at, *, flush=True):
    self._session.history += line
    self._session.changed = utc_now()


async def appends_at_the_flush(self, line, at, *, flush=True):
    self.waiting = getattr(self, "waiting", b"") + line
    if flush:
        self._session.history += self.waiting
        self.waiting = b""


async def reads_from_the_start(self, since):
    return await Writer.read(self, START)


async def trusts_the_past(self, since):
    known = self._session.history[since.size - len(since.last) : since.size]
    return await Writer.read(self, msgspec.structs.replace(since, last=bytes(known)))


async def sees_nothing_new(self, since):
    return StoredSession(self._session.metadata, History((), since), "")


async def appends_two_again(self, line, at, *, flush=True):
    await Writer.append(self, line, at)
    if b'"two"' in line:
        self._session.history += line


async def adds_a_line_of_its_own(self, line, at, *, flush=True):
    await Writer.append(self, line, at)
    if b'"two"' in line:
        self._session.history += encode_line([b'{"kind":"rewind","to":1}'], at.after(line))


async def sees_no_description(self, since):
    return StoredSession(None, (await Writer.read(self, since)).history, "")


async def sets_nothing_aside(self, at):
    return "nowhere"


async def never_lets_go(self):
    await trio.lowlevel.checkpoint()


async def exists_always(self, session_id):
    return True


async def exists_with_a_lock(self, session_id):
    return session_id in self._sessions


async def exists_with_lines(self, session_id):
    return bool(self._find(session_id).history)


async def lists_the_oldest_first(self):
    return (await InMemoryStore.list_all(self))[::-1]


async def lists_by_reading(self):
    for session_id in self._sessions:
        await self.read(session_id)
    return await InMemoryStore.list_all(self)


def checks_no_id(self, session_id):
    return self._sessions.get(session_id) or memory_store._MemorySession()


def mixes_sessions_up(self, session_id):
    return next(iter(self._sessions.values()), memory_store._MemorySession())


async def hides_the_torn_end(self, session_id):
    stored = await InMemoryStore.read(self, session_id)
    return msgspec.structs.replace(
        stored, history=msgspec.structs.replace(stored.history, torn=b"")
    )


async def hides_damage(self, session_id):
    try:
        return await InMemoryStore.read(self, session_id)
    except SessionCorruptError:
        return StoredSession(self._find(session_id).metadata, History((), START), "")


async def locks_nothing(self, session_id):
    self._find(session_id).is_locked = False
    return await BrokenStore.acquire(self, session_id)


async def locks_what_is_stored(self, session_id):
    if self._find(session_id).metadata is None:
        self._find(session_id).is_locked = False
    return await BrokenStore.acquire(self, session_id)


async def locks_before_it_waits(self, session_id):
    with trio.CancelScope(shield=True):
        writer = await BrokenStore.acquire(self, session_id)
    await trio.lowlevel.checkpoint()
    return writer


async def reads_one_less(self, session_id, count):
    return await InMemoryStore.read_last(self, session_id, max(count - 1, 1))


async def reads_all_before_the_last_page(self, session_id, count):
    await self.read(session_id)
    return await InMemoryStore.read_last(self, session_id, count)


async def keeps_quiet_about_the_end(self, session_id, count):
    found = await InMemoryStore.read_last(self, session_id, count)
    return msgspec.structs.replace(found, page=msgspec.structs.replace(found.page, repair=None))


async def finds_a_page_of_anything(self, session_id, count):
    found = await InMemoryStore.read_last(self, session_id, count)
    return msgspec.structs.replace(found, metadata=AgentSession.new("checked").description.record)


async def deletes_lines_only(self):
    await Writer.delete(self)
    self._sessions[self._session_id] = memory_store._MemorySession(metadata=self._session.metadata)


async def deletes_the_description_only(self):
    await self._check_epoch()
    self._session.metadata = None


async def deletes_by_reading(self):
    await self.read(START)
    await Writer.delete(self)


async def deletes_everything(self):
    await Writer.delete(self)
    self._sessions.clear()


async def deletes_in_two_steps(self):
    self._session.history.clear()
    await Writer.delete(self)


async def drops_unknown_keys(self, metadata):
    await self._check_epoch()
    self._session.metadata = metadata


async def checks_then_waits_then_appends(self, line, at, *, flush=True):
    await self._check_epoch()
    await trio.lowlevel.checkpoint()
    self._session.history += line
    self._session.changed = utc_now()


async def deletes_one_at_a_time(self):
    if getattr(self._sessions, "is_deleting", False):
        raise SessionStorageError("busy")
    self._sessions.is_deleting = True
    await Writer.delete(self)
    self._sessions.is_deleting = False


class Busy(with_writer(delete=deletes_one_at_a_time)):
    """Deletes of different sessions get in each other's way."""

    def __init__(self):
        super().__init__()
        self._sessions = type("Sessions", (dict,), {})()


def folds_case(self, session_id):
    return InMemoryStore._find(self, session_id.casefold())


async def repeats_the_last_of_a_page(self, after=None, limit=100, **which):
    page = await InMemoryStore.list_page(self, after, limit, **which)
    if after is None or not page.sessions:
        return page
    return msgspec.structs.replace(page, sessions=(page.sessions[0], *page.sessions))


async def counts_pages(self, after=None, limit=100, *, agent_type=None, archived=None):
    found = [each for each in await self.list_all() if agent_type in (None, each.agent_type)]
    start = int(after or 0)
    more = str(start + limit) if start + limit < len(found) else None
    return SessionPage(tuple(found[start : start + limit]), more)


async def counts_from_one(self, session_id):
    writer = await BrokenStore.acquire(self, session_id)
    writer.epoch = self.epoch = getattr(self, "epoch", 0) + 1
    self._find(session_id).epoch = writer.epoch
    return writer


async def puts_the_first_only(self, session_id, name, data):
    if not any(each.name == name for each in await self.list_files(session_id)):
        await InMemoryStore.put_file(self, session_id, name, data)


async def puts_for_sessions_only(self, session_id, name, data):
    if await self.exists(session_id):
        await InMemoryStore.put_file(self, session_id, name, data)


async def puts_for_anybody(self, session_id, name, data):
    for each in [*self._sessions]:
        await InMemoryStore.put_file(self, each, name, data)


async def puts_any_size(self, session_id, name, data):
    await InMemoryStore.put_file(self, session_id, name, data[: 1 << 24])


async def puts_in_two_steps(self, session_id, name, data):
    await InMemoryStore.put_file(self, session_id, name, data[:1000])
    await trio.testing.wait_all_tasks_blocked()
    await InMemoryStore.put_file(self, session_id, name, data)


async def deletes_no_files(self):
    await self._check_epoch()
    del self._sessions[self._session_id]


MUTANTS = {
    "a_line_whose_fate_is_unknown_is_stored_once": with_writer(read=sees_nothing_new),
    "a_line_of_a_cut_connection_is_whole_for_the_next_writer": with_writer(append=appends_anywhere),
    "a_file_comes_back_as_it_was": with_store(put_file=puts_the_first_only),
    "a_file_may_come_before_its_session": with_store(put_file=puts_for_sessions_only),
    "files_of_sessions_are_kept_apart": with_store(put_file=puts_for_anybody),
    "a_file_has_a_bound_and_a_name_that_leads_nowhere": with_store(put_file=puts_any_size),
    "files_go_with_their_session": with_writer(delete=deletes_no_files),
    "a_file_is_never_half_written": with_store(put_file=puts_in_two_steps),
    "each_writer_has_a_higher_epoch": with_store(acquire=counts_from_one),
    "a_loaded_session_equals_the_saved_one": with_writer(write_metadata=forgets_lineage),
    "a_session_grows_over_many_saves_and_loads": with_writer(
        append=loses_lines(lambda line, at: at.lines == 3)
    ),
    "the_stored_description_is_the_last": with_writer(write_metadata=keeps_the_first_description),
    "any_json_survives": with_writer(append=refuses_long_lines),
    "keys_of_newer_versions_survive": with_writer(write_metadata=drops_unknown_keys),
    "a_call_without_a_result_shows_as_interrupted": with_writer(
        append=loses_lines(lambda line, at: b"tools_started" in line)
    ),
    "a_description_alone_is_stored": with_writer(write_metadata=describes_nothing_without_lines),
    "a_blank_session_is_never_stored": with_store(exists=exists_with_a_lock),
    "an_unknown_session_is_not_found": with_store(exists=exists_always),
    "a_removed_session_is_not_brought_back": with_store(exists=exists_always),
    "the_list_shows_the_last_changed_first": with_store(list_all=lists_the_oldest_first),
    "pages_hold_every_session_once": with_store(list_page=repeats_the_last_of_a_page),
    "a_page_goes_on_after_a_session_that_is_gone": with_store(list_page=counts_pages),
    "a_page_of_nothing_is_an_error": with_store(list_page=counts_pages),
    "any_text_is_an_id": with_store(_find=folds_case),
    "a_hostile_id_is_refused": with_store(_find=checks_no_id),
    "many_sessions_grow_side_by_side": with_store(_find=mixes_sessions_up),
    "a_line_is_added_at_the_end_only": with_writer(append=appends_anywhere),
    "reading_goes_on_from_a_place": with_writer(read=reads_from_the_start),
    "another_past_is_refused": with_writer(read=trusts_the_past),
    "entries_of_newer_versions_survive": with_writer(
        append=loses_lines(lambda line, at: b"hologram" in line)
    ),
    "what_is_saved_without_a_flush_is_read_at_once": with_writer(append=appends_at_the_flush),
    "what_is_set_aside_is_out_of_the_history": with_writer(set_aside=sets_nothing_aside),
    "what_a_crash_left_of_an_unsaved_session_is_put_aside": with_store(exists=exists_with_lines),
    "a_damaged_end_is_reported_and_set_aside": with_store(read=hides_the_torn_end),
    "damage_in_the_middle_is_refused_and_changes_nothing": with_store(read=hides_damage),
    "listing_reads_no_history": with_store(list_all=lists_by_reading),
    "the_last_page_is_the_end_of_the_conversation": with_store(read_last=reads_one_less),
    "damage_is_noticed_in_the_last_page_and_not_before_it": with_store(
        read_last=reads_all_before_the_last_page
    ),
    "the_last_page_leaves_a_torn_end_out": with_store(read_last=keeps_quiet_about_the_end),
    "the_last_page_of_nothing_is_an_error": with_store(read_last=finds_a_page_of_anything),
    "one_writer_at_a_time": with_store(acquire=locks_nothing),
    "an_open_unsaved_session_holds_its_id": with_store(acquire=locks_what_is_stored),
    "a_new_session_cannot_take_an_id_of_the_store": with_writer(read=sees_no_description),
    "opening_brings_in_what_another_writer_added": with_writer(read=sees_nothing_new),
    "a_change_on_both_sides_is_refused": with_writer(read=sees_nothing_new),
    "saves_at_the_same_time_store_everything_once": with_writer(append=appends_twice),
    "a_save_cancelled_at_any_moment_can_be_repeated": with_store(acquire=locks_before_it_waits),
    "closing_releases_the_lock_even_when_cancelled": with_writer(release=never_lets_go),
    "cancelling_between_the_two_writes_loses_nothing": with_store(exists=exists_with_lines),
    "what_is_added_during_a_save_is_stored_by_the_next": with_writer(append=appends_twice),
    "a_writer_that_lost_its_session_writes_nothing": with_writer(_is_current=True),
    "a_writer_that_loses_its_session_within_a_write_does_not_go_on": with_writer(
        append=checks_then_waits_then_appends
    ),
    "a_deleted_session_is_gone_and_its_id_is_free": with_writer(delete=deletes_lines_only),
    "a_deleted_session_cannot_be_stored_again": with_writer(delete=deletes_lines_only),
    "a_session_that_is_written_is_not_deleted": with_store(acquire=locks_nothing),
    "a_damaged_session_can_be_deleted": with_writer(delete=deletes_by_reading),
    "a_writer_that_deleted_its_session_writes_nothing": with_writer(
        delete=deletes_the_description_only
    ),
    "a_delete_cancelled_at_any_moment_leaves_a_session_whole_or_gone": with_writer(
        delete=deletes_in_two_steps
    ),
    "children_are_deleted_with_their_parent_where_that_is_asked_for": with_writer(
        delete=deletes_everything
    ),
    "many_sessions_are_deleted_side_by_side": Busy,
}


@pytest.mark.parametrize("check", SESSION_STORE_CHECKS)
async def test_a_broken_store_is_caught_and_a_sound_one_passes(check):
    await check(Case(BrokenStore()))
    with pytest.raises(Exception):  # noqa: B017, PT011 -- whatever it is that shows the fault
        await check(Case(MUTANTS[check.__name__]()))


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        ({"read": sees_nothing_new}, "must find out .* was changed by another writer"),
        ({"read": sees_nothing_new, "append": appends_anywhere}, "stored twice, or not in its"),
        ({"append": appends_two_again}, "must find out .* was changed by another writer"),
        ({"append": adds_a_line_of_its_own}, "must find out"),
    ],
)
async def test_a_store_that_loses_or_doubles_a_line_in_doubt_fails_for_that_reason(methods, reason):
    with pytest.raises(AssertionError, match=reason):
        await a_line_whose_fate_is_unknown_is_stored_once(Case(with_writer(**methods)()))


def test_every_check_has_a_broken_store():
    assert set(MUTANTS) == {check.__name__ for check in SESSION_STORE_CHECKS}


async def test_the_failure_names_its_check():
    with pytest.raises(AssertionError) as caught:
        await check_session_store(Case(with_writer(append=appends_anywhere)()))
    assert caught.value.__notes__ == ["in the check a_line_is_added_at_the_end_only"]


def test_what_was_expected_and_did_not_come_is_told():
    with pytest.raises(AssertionError, match="found 1, expected 2"):
        check_equal(1, 2)
    with pytest.raises(AssertionError, match="ValueError was not raised"):
        with expect_error(ValueError):
            pass
    with pytest.raises(AssertionError, match="should say 'b': a"):
        with expect_error(ValueError, message="b"):
            raise ValueError("a")
    with pytest.raises(KeyError):
        with expect_error(ValueError):
            raise KeyError
