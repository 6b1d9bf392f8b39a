"""Checks for session stores: this project's own pass them, and so should yours.

`suite` has the list and the call that runs it; the checks are in `content` (what is kept), `lines`
(the history, also damaged), `pages` (its end alone), `writers` (who may write; `disturbance` cuts in)
and `deletion`. `under_test` is what you say of a store.
"""

from greenroom.testing.stores.suite import (
    SESSION_STORE_CHECKS as SESSION_STORE_CHECKS,
    SessionStoreCheck as SessionStoreCheck,
    check_session_store as check_session_store,
)
from greenroom.testing.stores.under_test import StoreUnderTest as StoreUnderTest
