"""Where this run finds its sessions."""

import os
from typing import TYPE_CHECKING

from greenroom.cli.run.folders import sessions_folder
from greenroom.session import FileStore

if TYPE_CHECKING:
    from greenroom.cli.options import Options
    from greenroom.session import SQLiteStore


def open_store(options: "Options") -> "FileStore | SQLiteStore":
    """Return the store that the options name, else the user's own; a file is a database."""
    place = options.sessions or sessions_folder()
    if not os.path.isfile(place):
        return FileStore(place)
    from greenroom.session import SQLiteStore

    return SQLiteStore(place)
