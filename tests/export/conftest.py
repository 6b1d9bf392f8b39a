"""The conversation and the stores that the tests of sessions have."""

from tests.session.conftest import conversation, files, store, store_under_test, wall

__all__ = ["conversation", "files", "store", "store_under_test", "wall"]
