"""What calls do to the files of a workspace: seen, kept, and undone. It knows of no session.

`file_state` reads how one path is, `survey` how all of them are, `packs` keeps contents, `window` is
the time during which calls run, `recorder` opens and closes windows, `put_back` undoes one change.
"""

from greenroom.tools.workspace.file_state import look_at as look_at
from greenroom.tools.workspace.packs import Packs as Packs, PackWriter as PackWriter
from greenroom.tools.workspace.put_back import put_back as put_back
from greenroom.tools.workspace.recorder import WorkspaceRecorder as WorkspaceRecorder
from greenroom.tools.workspace.window import Window as Window

__all__ = ["PackWriter", "Packs", "Window", "WorkspaceRecorder", "look_at", "put_back"]
