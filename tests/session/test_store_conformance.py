"""Every store passes the one suite that stores of others are held to as well."""

import pytest
import trio

from greenroom.testing import check_session_store
from greenroom.testing._internal import SESSION_STORE_CHECKS


@pytest.mark.every(5)
@pytest.mark.parametrize("check", SESSION_STORE_CHECKS)
async def test_a_store_passes(check, store_under_test):
    with trio.fail_after(60):
        await check(store_under_test)


async def test_the_checks_get_along_in_one_store(store_under_test):
    await check_session_store(store_under_test)


def test_the_folder_of_a_session_bears_its_id_where_there_are_folders(store):
    assert store.folder("mine").rpartition("/")[2] in {"mine", ""}
