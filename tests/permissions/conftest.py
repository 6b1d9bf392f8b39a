import pytest

from greenroom.fs.file_lookup import FileLookup


@pytest.fixture(scope="module")
def everyday_programs():
    """Let programs that this machine lacks be there: what may be remembered depends on it."""
    find = FileLookup.find_program
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            FileLookup,
            "find_program",
            lambda self, name, path: find(self, name, path) or f"/usr/bin/{name}",
        )
        yield
