from greenroom.interop.mcp.serve import serve_mcp as serve_mcp
from greenroom.interop.mcp.server import MCPServer as MCPServer
from greenroom.interop.mcp.servers import MCPServers as MCPServers
from greenroom.interop.remote_agent import remote as remote
from greenroom.interop.remote_server import (
    RemoteError as RemoteError,
    RemoteLostError as RemoteLostError,
)
from greenroom.interop.serving.a2a_server import A2AServer as A2AServer
from greenroom.interop.serving.limits import ServerLimits as ServerLimits
from greenroom.interop.serving.tokens import Tokens as Tokens
from greenroom.interop.serving.web_server import WebServer as WebServer
