"""The SDK's own server, for what `serve_mcp` does not offer; it prints its URL.

These are prompts, resources, completion, sampling, logging and lists that change.
"""

import contextlib
import socket
import warnings

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from tests.interop.server import PNG

BUS = InMemorySubscriptionBus()
USER = {"role": "user"}


def text(value: str) -> types.TextContent:
    return types.TextContent(text=value)


def done(value: str) -> types.CallToolResult:
    return types.CallToolResult(content=[text(value)])


SAMPLING = types.CreateMessageRequest(
    params=types.CreateMessageRequestParams(
        messages=[types.SamplingMessage(role="user", content=text("What is the capital?"))],
        max_tokens=100,
    )
)
ROOTS = types.ListRootsRequest()


def form(question: str, name: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    params = types.ElicitRequestFormParams(message=question, requested_schema=schema)
    return types.ElicitRequest(params=params)


async def sample(ctx, params):
    message = types.SamplingMessage(role="user", content=text(params.arguments["prompt"]))
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )
    found = await ctx.session.send_request(request, types.CreateMessageResult, metadata=None)
    return done(f"LLM response: {found.content}")


async def log(ctx, params):
    for word in ("started", "processing", "completed"):
        note = types.LoggingMessageNotificationParams(level="info", data=f"Tool execution {word}")
        if ctx.protocol_version < "2026":
            await ctx.session.send_notification(
                types.LoggingMessageNotification(params=note), ctx.request_id
            )
    return done("logged")


async def require_sampling(ctx, params):
    known = ctx.session.client_capabilities
    if known is None or known.sampling is None:
        wanted = types.MissingRequiredClientCapabilityErrorData(
            required_capabilities=types.ClientCapabilities(sampling=types.SamplingCapability())
        )
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="sampling is needed",
            data=wanted.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return done("it has sampling")


def asking(state: str | None = None, **requests):
    async def ask(ctx, params):
        given = params.input_responses or {}
        if requests.keys() <= given.keys():
            return done("; ".join(f"{key}: {given[key]}" for key in requests))
        return types.InputRequiredResult(input_requests=requests, request_state=state)

    return ask


async def ask_what_is_possible(ctx, params):
    known = ctx.session.client_capabilities
    wanted = {}
    if known.sampling is not None:
        wanted["capital"] = SAMPLING
    if known.elicitation is not None:
        wanted["name"] = form("What is your name?", "name")
    return types.InputRequiredResult(input_requests=wanted)


def telling(event):
    async def tell(ctx, params):
        await BUS.publish(event())
        return done("told")

    return tell


TOOLS = {
    "test_sampling": sample,
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_missing_capability": require_sampling,
    "test_streaming_elicitation": asking(name=form("What is your name?", "name")),
    "test_trigger_tool_change": telling(ToolsListChanged),
    "test_trigger_prompt_change": telling(PromptsListChanged),
    "test_input_required_result_sampling": asking(capital_question=SAMPLING),
    "test_input_required_result_list_roots": asking(client_roots=ROOTS),
    "test_input_required_result_multiple_inputs": asking(
        "state",
        user_name=form("What is your name?", "name"),
        greeting=SAMPLING,
        client_roots=ROOTS,
    ),
    "test_input_required_result_capabilities": ask_what_is_possible,
}


async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"prompt": {"type": "string"}}}
    tools = [types.Tool(name=n, description=f"The tool {n}.", input_schema=schema) for n in TOOLS]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return await TOOLS[params.name](ctx, params)


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(ctx, params):
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"The prompt {name}.",
                arguments=[types.PromptArgument(name=each, required=True) for each in names],
            )
            for name, names in PROMPTS.items()
        ]
    )


async def get_prompt(ctx, params):
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            found = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            told = ", ".join(f"{name}='{given[name]}'" for name in PROMPTS[params.name])
            found = [text(f"Prompt with arguments: {told}")]
        case "test_prompt_with_embedded_resource":
            content = types.TextResourceContents(
                uri=given["resourceUri"],
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            found = [types.EmbeddedResource(resource=content), text("Please process it.")]
        case "test_prompt_with_image":
            found = [types.ImageContent(data=PNG, mime_type="image/png"), text("Please look.")]
        case "test_input_required_result_prompt":
            answer = (params.input_responses or {}).get("user_context")
            if answer is None:
                wanted = {"user_context": form("What context should the prompt use?", "context")}
                return types.InputRequiredResult(input_requests=wanted)
            found = [text(f"With the context {answer.content}.")]
        case _:
            raise MCPError(code=types.INVALID_PARAMS, message="Unknown prompt")
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=each) for each in found]
    )


STATIC = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", None),
    "test://watched-resource": ("text/plain", "Watched."),
}


async def list_resources(ctx, params):
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri, description=f"The resource {uri}.", mime_type=kind)
            for uri, (kind, _) in STATIC.items()
        ]
    )


async def list_templates(ctx, params):
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(ctx, params):
    uri = str(params.uri)
    kind, value = STATIC.get(uri, ("application/json", None))
    if uri.startswith("test://template/"):
        id_ = uri.split("/")[3]
        value = f'{{"id":"{id_}","templateTest":true,"data":"Data for ID: {id_}"}}'
    elif uri not in STATIC:
        raise MCPError(code=types.INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    if value is None:
        content = types.BlobResourceContents(uri=uri, mime_type=kind, blob=PNG)
    else:
        content = types.TextResourceContents(uri=uri, mime_type=kind, text=value)
    return types.ReadResourceResult(contents=[content])


async def accept(ctx, params):
    return types.EmptyResult()


async def complete(ctx, params):
    found = types.Completion(values=["paris", "park", "party"], total=3, has_more=False)
    return types.CompleteResult(completion=found)


def make_server() -> Server:
    return Server(
        "sdk",
        version="1",
        cache_hints={
            each: CacheHint()
            for each in (
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list",
                "resources/read",
            )
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_completion=complete,
        on_set_logging_level=accept,
        on_subscriptions_listen=ListenHandler(BUS),
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # logging and roots are of the older era
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(make_server().streamable_http_app(), log_level="critical")
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
