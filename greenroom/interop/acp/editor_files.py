"""Files as an editor has them, with what is not saved yet."""

from dataclasses import dataclass
from pathlib import Path

import trio

from greenroom.core import ToolError
from greenroom.interop.acp.json_rpc import Peer, RPCError
from greenroom.interop.acp.wire import Content, FileAbilities, read
from greenroom.tools import FileSystem

_PATIENCE = 10.0  # seconds that an editor may take for one file
_MAX_BYTES = 4 << 20  # of a file that goes through the editor, so that its line has room in JSON


@dataclass(frozen=True)
class EditorFiles(FileSystem):
    """Reads and writes text files through an editor, as far as it can.

    Attributes:
        peer: the editor.
        session_id: the session for which it does.
        abilities: what it can do.
    """

    peer: Peer
    session_id: str
    abilities: FileAbilities

    async def read(self, path: Path, size: int) -> bytes | None:
        """Return a file as the editor has it; None if it has not, and the disk counts."""
        if not self.abilities.read_text_file or size > _MAX_BYTES:
            return None
        try:
            answer = await self._request("fs/read_text_file", path)
            return read(answer, Content).content.encode()
        except (RPCError, UnicodeEncodeError):
            return None  # it may be no text, or nothing that the editor looks after

    async def write(self, path: Path, content: bytes) -> bool:
        """Have the editor write a file; False if it does not, and the disk has to.

        Raises:
            ToolError: it has refused.
        """
        if not self.abilities.write_text_file or len(content) > _MAX_BYTES:
            return False
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return False
        try:
            await self._request("fs/write_text_file", path, content=text)
        except RPCError as error:
            raise ToolError(f"the editor did not write {path}: {error.message}") from error
        return True

    async def _request(self, method: str, path: Path, **more: object) -> object:
        params = {"sessionId": self.session_id, "path": str(path), **more}
        with trio.move_on_after(_PATIENCE):
            return await self.peer.request(method, params)
        raise ToolError(
            f"the editor has not answered about {path} for {_PATIENCE:g} seconds",
            hint="try again, or use Bash",
        )
