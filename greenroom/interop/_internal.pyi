from greenroom.interop.acp.editor_server import EditorServer as EditorServer
from greenroom.interop.acp.parts import (
    EditorCommand as EditorCommand,
    EditorOption as EditorOption,
    SessionParts as SessionParts,
    SessionRequest as SessionRequest,
)
from greenroom.interop.mcp.files import (
    read_server_file as read_server_file,
    write_server as write_server,
)
from greenroom.interop.mcp.login import LoginRecord as LoginRecord
from greenroom.interop.mcp.oauth import revoke_login as revoke_login
from greenroom.interop.mcp.offers import MCPPrompt as MCPPrompt
from greenroom.interop.mcp.server import MCPServerError as MCPServerError
from greenroom.interop.mcp.servers import MCPServerStatus as MCPServerStatus
from greenroom.interop.remote_agent import (
    find_remote_session as find_remote_session,
    join_remote as join_remote,
)
from greenroom.interop.remote_server import (
    Patience as Patience,
    RemoteServer as RemoteServer,
    read_chunk as read_chunk,
)
from greenroom.interop.serving.asgi import (
    Receive as Receive,
    Request as Request,
    Scope as Scope,
    Send as Send,
    json_reply as json_reply,
)
from greenroom.interop.serving.guard import (
    LOCAL as LOCAL,
    Admitted as Admitted,
    is_loopback as is_loopback,
)
from greenroom.interop.serving.refusals import RequestRefusedError as RequestRefusedError
from greenroom.interop.serving.shown_page import (
    serve_shown as serve_shown,
    write_snapshot as write_snapshot,
)
from greenroom.interop.serving.tokens import (
    Caller as Caller,
    Role as Role,
    add_token as add_token,
)
