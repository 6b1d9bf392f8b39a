"""The whole suite, and one call that runs it."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from greenroom.testing.stores import content, deletion, lines, pages, writers
from greenroom.testing.stores.under_test import StoreUnderTest

SessionStoreCheck: TypeAlias = Callable[[StoreUnderTest], Awaitable[None]]
"""One check: it returns, or fails with an error that says what the store did wrong."""

_PATIENCE = 60.0
"""Seconds for one check, which takes milliseconds on any store that does not hang."""

SESSION_STORE_CHECKS: tuple[SessionStoreCheck, ...] = (
    content.a_loaded_session_equals_the_saved_one,
    content.a_session_grows_over_many_saves_and_loads,
    content.the_stored_description_is_the_last,
    content.any_json_survives,
    content.keys_of_newer_versions_survive,
    content.a_call_without_a_result_shows_as_interrupted,
    content.a_description_alone_is_stored,
    content.a_blank_session_is_never_stored,
    content.an_unknown_session_is_not_found,
    content.a_removed_session_is_not_brought_back,
    content.the_list_shows_the_last_changed_first,
    content.a_hostile_id_is_refused,
    content.many_sessions_grow_side_by_side,
    lines.a_line_is_added_at_the_end_only,
    lines.reading_goes_on_from_a_place,
    lines.another_past_is_refused,
    lines.entries_of_newer_versions_survive,
    lines.what_is_saved_without_a_flush_is_read_at_once,
    lines.what_is_set_aside_is_out_of_the_history,
    lines.what_a_crash_left_of_an_unsaved_session_is_put_aside,
    lines.a_damaged_end_is_reported_and_set_aside,
    lines.damage_in_the_middle_is_refused_and_changes_nothing,
    lines.listing_reads_no_history,
    pages.the_last_page_is_the_end_of_the_conversation,
    pages.damage_is_noticed_in_the_last_page_and_not_before_it,
    pages.the_last_page_leaves_a_torn_end_out,
    pages.the_last_page_of_nothing_is_an_error,
    writers.one_writer_at_a_time,
    writers.an_open_unsaved_session_holds_its_id,
    writers.a_new_session_cannot_take_an_id_of_the_store,
    writers.opening_brings_in_what_another_writer_added,
    writers.a_change_on_both_sides_is_refused,
    writers.saves_at_the_same_time_store_everything_once,
    writers.a_save_cancelled_at_any_moment_can_be_repeated,
    writers.closing_lets_go_even_when_cancelled,
    writers.cancelling_between_the_two_writes_loses_nothing,
    writers.what_is_added_during_a_save_is_stored_by_the_next,
    writers.a_writer_that_lost_its_session_writes_nothing,
    writers.a_writer_that_loses_its_session_within_a_write_does_not_go_on,
    deletion.a_deleted_session_is_gone_and_its_id_is_free,
    deletion.who_loaded_a_session_that_is_deleted_cannot_store_it_again,
    deletion.a_session_that_is_written_is_not_deleted,
    deletion.a_damaged_session_can_be_deleted,
    deletion.a_writer_that_deleted_its_session_writes_nothing,
    deletion.a_delete_cancelled_at_any_moment_leaves_a_session_whole_or_gone,
    deletion.children_are_deleted_with_their_parent_where_that_is_asked_for,
    deletion.many_sessions_are_deleted_side_by_side,
)
"""All checks, to be run one by one: `@pytest.mark.parametrize("check", SESSION_STORE_CHECKS)`."""


async def check_session_store(case: StoreUnderTest) -> None:
    """Run every check on a store, in turn; each makes sessions of its own in it.

    What passes behaves as this project's stores do. It does not show that a store survives a crash
    or a loss of power: that takes a process that is killed, and a disk that fails.

    Raises:
        AssertionError: the store did something wrong.
        trio.TooSlowError: a check hung.
        Exception: whatever the store raised; each has a note that names the check.

    Example:
        ```python
        trio.run(check_session_store, MyStoreUnderTest())
        ```
    """
    for check in SESSION_STORE_CHECKS:
        try:
            with trio.fail_after(_PATIENCE):
                await check(case)
        except Exception as error:
            error.add_note(f"in the check {check.__name__}")
            raise
