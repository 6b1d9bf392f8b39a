"""Writes the pages of servers that speak Chat Completions: python docs/reference/providers.py.

What differs from server to server is in the table of profiles, `greenroom/llm/openai/hosts.py`. The
remarks are here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from greenroom.llm import HostProfile
from greenroom.llm._internal import HOSTS, MODELS
from greenroom.llm.endpoint import is_local

FOLDER = Path(__file__).with_suffix("")
LIST = FOLDER / "compatible.md"
BEGIN, END = "<!-- servers -->\n", "<!-- /servers -->\n"
NOTE = "<!-- Written by docs/reference/providers.py from greenroom/llm/openai/hosts.py. -->"

_USUAL_ECHOED_FIELDS = HOSTS["openrouter"].echoed_fields


@dataclass(frozen=True)
class About:
    """What a page says that no profile does.

    Attributes:
        title: the vendor's or the program's name.
        model: a model for the example.
        remarks: more to know, a paragraph or none.
    """

    title: str
    model: str
    remarks: str = ""


_OLLAMA = """\
The model must be there: `ollama pull llama3.2`. Its window is 4,096 tokens on a machine with less
than 24 GiB of graphics memory, far below what the model could take, and Ollama drops the beginning
of a longer request without a word. So set `OLLAMA_CONTEXT_LENGTH` for the server, or `num_ctx` in
the model's file; over this API, no field of a request changes the window.
"""
_VLLM = """\
Start it with parsers for the model: `vllm serve Qwen/Qwen3-32B --enable-auto-tool-choice
--tool-call-parser hermes --reasoning-parser qwen3`. Then calls and thoughts come in fields of their
own, `reasoning` or, before 2026, `reasoning_content`; without them, tags in the text are read. Its
own fields, such as `chat_template_kwargs`, go into `options`. A conversation that is too long is an
error. The key is that of `--api-key`; `VLLM_BASE_URL` is a variable of Greenroom's.
"""
_SGLANG = """\
Start it with parsers for the model: `python -m sglang.launch_server --model-path Qwen/Qwen3-32B
--tool-call-parser qwen25 --reasoning-parser qwen3`. Then calls and thoughts come in fields of their
own; without them, tags in the text are read. A conversation that is too long is an error. The key
is that of `--api-key`; both variables are Greenroom's.
"""
_LMSTUDIO = """\
Start its server in the tab Developer, or with `lms server start`. A model is loaded with the window
of its settings, often far below what it could take: `lms load MODEL --context-length 32768`. A
conversation that is too long is an error. The key is a token of its settings, and needed only where
those require it; `LMSTUDIO_BASE_URL` is a variable of Greenroom's.
"""
_LLAMACPP = """\
Start it with the model's own template, which calls of tools need: `llama-server -m model.gguf
--jinja -c 32768`. It serves one model, whatever name a request has. Thoughts come in
`reasoning_content`, unless `--reasoning-format none` leaves them in the text. A conversation that
is too long is an error. The key is that of `--api-key`, in the program's own variable;
`LLAMACPP_BASE_URL` is one of Greenroom's.
"""
_OPENROUTER = """\
Models have the names of OpenRouter, with their vendor: `openrouter:anthropic/claude-sonnet-5`.
Fields of its own, such as `provider` or `models`, go into `ModelRequest(options={…})`.
"""
_AZURE = """\
The address is that of your own resource, and the model is the name of your deployment. OpenAI's
models and those of other vendors are reached in the same way. Requests name no API version: the
address is that of the v1 API.
"""
_GEMINI = """\
This is Gemini's compatibility with OpenAI; [its own API](google.md), `google:`, has more. Thought
signatures, which Gemini needs back, are in `extra_content` and are sent back.
"""
_LITELLM = """\
A proxy of your own in front of other vendors, even those that have no provider here, such as
Amazon Bedrock and Vertex AI. Models have the names of the proxy's configuration.
"""

ABOUT = {
    "azure": About("Azure OpenAI", "my-deployment", _AZURE),
    "openrouter": About("OpenRouter", "anthropic/claude-sonnet-5", _OPENROUTER),
    "groq": About("Groq", "openai/gpt-oss-120b"),
    "mistral": About("Mistral", "mistral-large-2512"),
    "deepseek": About("DeepSeek", "deepseek-v4-pro"),
    "xai": About("xAI", "grok-4.7"),
    "ollama": About("Ollama", "llama3.2", _OLLAMA),
    "vllm": About("vLLM", "Qwen/Qwen3-32B", _VLLM),
    "sglang": About("SGLang", "Qwen/Qwen3-32B", _SGLANG),
    "lmstudio": About("LM Studio", "qwen/qwen3-32b", _LMSTUDIO),
    "llamacpp": About("llama.cpp", "qwen3-32b", _LLAMACPP),
    "together": About("Together AI", "openai/gpt-oss-120b"),
    "perplexity": About("Perplexity", "sonar-pro"),
    "cerebras": About("Cerebras", "gpt-oss-120b"),
    "fireworks": About("Fireworks AI", "accounts/fireworks/models/gpt-oss-120b"),
    "huggingface": About("Hugging Face", "openai/gpt-oss-120b"),
    "gemini-openai": About("Gemini over OpenAI's API", "gemini-3.8-flash", _GEMINI),
    "vercel": About("Vercel AI Gateway", "anthropic/claude-sonnet-5"),
    "zai": About("Z.ai", "glm-5"),
    "moonshot": About("Moonshot AI", "kimi-k2.5"),
    "litellm": About("LiteLLM", "my-model", _LITELLM),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its file's name."""
    return {f"{host.name}.md": _page(host) for host in _hosts()}


def listing() -> str:
    """Return the list of the pages, for the page about all of them."""
    lines = [f"- [{ABOUT[host.name].title}]({host.name}.md): `{host.name}:`" for host in _hosts()]
    return "\n" + "\n".join(lines) + "\n\n"


def write_listing(text: str) -> str:
    """Return the page about all servers with the list."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + listing() + text[end:]


def _hosts() -> list[HostProfile]:
    return [host for host in HOSTS.values() if host.name != "openai"]


def _page(host: HostProfile) -> str:
    about = ABOUT[host.name]
    at = f" at `{host.base_url}`" if "://" in host.base_url else ""
    parts = [
        f"# {about.title}\n",
        f"{NOTE}\n",
        f"`{host.name}:MODEL`: the [Chat Completions API](compatible.md){at}.\n",
        f"```python\n{_example(host)}```\n",
        "| | |\n| --- | --- |",
        *(f"| {what} | {says} |" for what, says in _rows(host)),
        f"\n{about.remarks}" if about.remarks else "\n",
        _THINKING,
        _LOCAL_WINDOW if _is_local(host) else _WINDOW,
    ]
    return "\n".join(parts).replace("\n\n\n", "\n\n")


_THINKING = """\
- **Thinking.** `effort="high"` is sent as `reasoning_effort`; `thinking=N` as the nearest: none for
  0, low to 2,048 tokens, medium to 8,192, else high. Other fields for it go into `options`."""
_WINDOW = """\
- **Window.** That of the [catalogue](../models.md), if the model is listed; else say it with
  [`window=`](../../concepts/context.md#how-large-the-window-is), so that long conversations are
  compacted.
- **Fields that it refuses** are left out with `options={"name": msgspec.UNSET}`.
"""
_LOCAL_WINDOW = """\
- **Window.** [The server is asked](../../concepts/context.md#how-large-the-window-is), unless you
  say it with `window=`.
- **Fields that it refuses** are left out with `options={"name": msgspec.UNSET}`.
"""


def _example(host: HostProfile) -> str:
    model = f"{host.name}:{ABOUT[host.name].model}"
    env = {} if _is_local(host) else {host.key_variables[0]: "sk-1"}
    if "://" not in host.base_url:
        env[host.base_variables[-1]] = "https://acme.openai.azure.com"
    if not env:
        opened = f'llm = open_model("{model}", {{}})'
    else:
        lines = "".join(f'    "{name}": "{value}",\n' for name, value in env.items())
        written = f"{{\n{lines}}}" if len(env) > 1 else f"{{{lines.strip().rstrip(',')}}}"
        opened = f'env = {written}\nllm = open_model("{model}", env)'
    return (
        f"from greenroom import open_model\n\n{opened}\nprint(llm.name, llm.model)\n"
        f"# > {host.name} {ABOUT[host.name].model}\n"
    )


def _rows(host: HostProfile) -> Iterator[tuple[str, str]]:
    needed = ", not needed on this machine" if _is_local(host) else ""
    yield "key", " or ".join(f"`{each}`" for each in host.key_variables) + needed
    if host.base_variables:
        what = "another address" if "://" in host.base_url else "address"
        yield what, " or ".join(f"`{each}`" for each in host.base_variables)
    else:
        yield "another address", "`OpenAIProvider(model, base_url=…, host=…)`"
    schema = {True: "takes a JSON Schema", False: "takes no JSON Schema", None: "not known"}
    yield "[structured output](../../how-to/structured-output.md)", schema[host.json_schema]
    if host.echoed_fields != _USUAL_ECHOED_FIELDS:
        fields = ", ".join(f"`{each}`" for each in sorted(host.echoed_fields))
        yield "reply fields sent back", fields or "nothing but text and calls"
    if host.has_tags:
        yield "thoughts and calls as tags in the text", "[are read](../../concepts/messages.md)"
    if host.call_id_length:
        yield "call ids", f"{host.call_id_length} letters and digits"
    elif host.longest_call_id:
        yield "call ids", f"at most {host.longest_call_id} characters"
    if known := [name for name in MODELS if name.startswith(f"{host.name}:")]:
        yield f"[known models](../models.md#{host.name})", ", ".join(f"`{name}`" for name in known)


def _is_local(host: HostProfile) -> bool:
    return "://" in host.base_url and is_local(host.base_url)


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    LIST.write_text(write_listing(LIST.read_text()))
