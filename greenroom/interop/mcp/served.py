"""Our tools as a server of the protocol: what it lists, and the calls that are on the way."""

import logging
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeAlias

import mcp_types as types
import trio
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from greenroom._version import __version__
from greenroom.agents._internal import Toolbox
from greenroom.core import ToolDefinition
from greenroom.core._internal import log_error, visible
from greenroom.interop.mcp.reply import write_result, write_tool
from greenroom.interop.mcp.served_call import PATIENCE, Client, Question, ServedCall
from greenroom.interop.mcp.transport import Streams
from greenroom.interop.serving.guard import caller_of
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime
from greenroom.tools._internal import RegisteredTool

Context: TypeAlias = ServerRequestContext[dict[str, object], Request]
"""What the SDK says of a request."""

_PAGE = 500  # tools
_MOST_CALLS = 100  # that are on the way at once, those that wait for an answer included
_MOST_SESSIONS = 1_000
_USER = "user"

_log = logging.getLogger("greenroom.interop")


class ServedTools:
    """Tools that clients list and call.

    Attributes:
        server: the SDK's server, for any transport.
    """

    def __init__(
        self,
        runtime: AgentRuntime,
        tools: Toolbox,
        permissions: PermissionManager | None,
        nursery: trio.Nursery,
    ) -> None:
        """Serve these tools; calls run in the nursery."""
        self._runtime, self._tools, self._permissions = runtime, tools, permissions
        self._nursery = nursery
        self._clients: dict[str, Client] = {}
        self._calls: set[ServedCall] = set()
        self._parked: dict[str, ServedCall] = {}
        # The tools that each session was told of last, the one that asked last at the end.
        self._told = OrderedDict[str, tuple[ToolDefinition, ...]]()
        self.server: Server[dict[str, object]] = _Server(
            "greenroom",
            version=__version__,
            on_list_tools=self._list,
            on_call_tool=self._call,
            get_tool_input_schema=self._find_schema,
            cache_hints={"tools/list": CacheHint()},
        )

    async def serve(self, streams: Streams) -> None:
        """Serve one client on a pair of streams, until it leaves."""
        await self.server.run(*streams, self.server.create_initialization_options())

    def _find(self, name: str) -> RegisteredTool | None:
        found = self._tools.registry.get(name)
        return None if found is None or found.runs_on_client else found

    def _find_schema(self, name: str) -> Mapping[str, object] | None:
        found = self._find(name)
        return None if found is None else found.parameters

    async def _list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List a page of the tools, by their names."""
        cursor = params.cursor if params is not None and params.cursor else "0"
        if not cursor.isdecimal() or len(cursor) > 9:
            raise MCPError(code=types.INVALID_PARAMS, message="The page does not exist")
        start = int(cursor)
        tools = self._tools.registry.definitions()
        if start == 0 and (session := _name_session(context)) is not None:
            self._told[session] = tools
            self._told.move_to_end(session)
            if len(self._told) > _MOST_SESSIONS:
                self._told.popitem(last=False)
        names = sorted(each.name for each in tools)
        found = [self._find(name) for name in names[start : start + _PAGE]]
        return types.ListToolsResult(
            tools=[write_tool(each) for each in found if each is not None],
            next_cursor=str(start + _PAGE) if start + _PAGE < len(names) else None,
        )

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Begin a call, or go on with one that has asked something, until it ends or asks."""
        tool = self._find(params.name)
        if tool is None:
            text = f"Unknown tool: {visible(params.name)[:100]}"
            raise MCPError(code=types.INVALID_PARAMS, message=text)
        client = self._find_client(context)
        call = self._begin(context, client, params) if params.request_state is None else None
        call = call or self._resume(client, params)
        shown = 0

        async def show(text: str) -> None:
            nonlocal shown
            shown += 1
            await context.session.report_progress(shown, None, visible(text))

        call.show = show
        try:
            while isinstance(found := await call.next(), Question):
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return self._park(call, found)
                await _ask(context, found, client.by)
        except BaseException:  # above all a cancel: the client no longer wants the call
            call.cancel()
            raise
        finally:
            call.show = None
        await self._tell_changes(context)
        return write_result(found, tool)

    async def _tell_changes(self, context: Context) -> None:
        """Tell a client whose tools are others than those that it has listed, once."""
        session = _name_session(context)
        told = None if session is None else self._told.get(session)
        if session is None or told is None or told == self._tools.registry.definitions():
            return
        del self._told[session]  # until it lists them again
        await context.session.send_tool_list_changed()

    def _find_client(self, context: Context) -> Client:
        """Return whose call it is: of the token's name over HTTP, else of the one client."""
        request = context.request  # over HTTP, where the guard has let it in
        caller = None if request is None else caller_of(request.scope)
        key, by = (caller.digest, caller.name) if caller else ("", _USER)
        if key not in self._clients:
            self._clients[key] = Client(self._runtime, by)
        return self._clients[key]

    def _begin(
        self, context: Context, client: Client, params: types.CallToolRequestParams
    ) -> ServedCall:
        if len(self._calls) >= _MOST_CALLS:
            text = f"{_MOST_CALLS} calls are on the way: wait for one of them"
            raise MCPError(code=types.INTERNAL_ERROR, message=text)
        call = ServedCall(
            client,
            params.name,
            params.arguments or {},
            _list_answers(params),
            may_ask=_takes_forms(context),
        )
        self._calls.add(call)
        self._nursery.start_soon(self._run, call)
        return call

    async def _run(self, call: ServedCall) -> None:
        try:
            await call.run(self._runtime, self._tools, self._permissions)
        except Exception as error:  # noqa: BLE001  (a call that fails concerns no other)
            log_error(_log, f"a call of {call.name} failed", error)
        finally:
            call.end()
            self._calls.discard(call)
            for state in [key for key, each in self._parked.items() if each is call]:
                del self._parked[state]

    def _park(self, call: ServedCall, question: Question) -> types.InputRequiredResult:
        """Keep a call until the request comes that brings the answer."""
        state = secrets.token_urlsafe(24)
        self._parked[state] = call
        call.wait_at_most(PATIENCE)
        form = question.form
        return types.InputRequiredResult(
            input_requests={form.key: types.ElicitRequest(params=form.params)},
            request_state=state,
        )

    def _resume(self, client: Client, params: types.CallToolRequestParams) -> ServedCall:
        """Find the call that a request goes on with, and give it the answer."""
        state = params.request_state or ""
        call = self._parked.get(state)
        is_same = (
            call is not None
            and call.client is client
            and (call.name, call.input) == (params.name, params.arguments or {})
        )
        if call is None or not is_same:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="Invalid or expired requestState",
                data={"reason": "invalid_request_state"},
            )
        del self._parked[state]
        call.wait_at_most(float("inf"))
        if (question := call.question) is not None:
            question.answer(_list_answers(params).get(question.form.key), client.by)
        return call


class _Server(Server[dict[str, object]]):
    """The SDK's, which tells clients that they may be told of other tools."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, object]] | None = None,
        extensions: dict[str, dict[str, object]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


def _name_session(context: Context) -> str | None:
    """Return the name of a session; "" for the one of standard streams, None without sessions."""
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None
    return "" if context.request is None else context.request.headers.get("mcp-session-id")


def _list_answers(params: types.CallToolRequestParams) -> dict[str, types.ElicitResult]:
    responses = params.input_responses or {}
    return {key: each for key, each in responses.items() if isinstance(each, types.ElicitResult)}


def _takes_forms(context: Context) -> bool:
    """Whether the client shows forms to a person."""
    known = context.session.client_capabilities
    asks = None if known is None else known.elicitation
    return asks is not None and (asks.form is not None or asks.url is None)


async def _ask(context: Context, question: Question, by: str) -> None:
    """Have the client show a form, and wait for the answer, unless the question is withdrawn."""
    form, result = question.form, None
    with question.scope:
        try:
            result = await context.session.elicit_form(form.text, form.schema, context.request_id)
        except MCPError as error:
            _log.debug("a client did not answer a question: %s", error)
        if not question.answer(result, by):
            question.answer(types.ElicitResult(action="cancel"), by)
