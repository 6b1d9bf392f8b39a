"""Servers with the Chat Completions API: their names, their addresses and their differences.

One server refuses fields that another one sends. So each server has a name, under which its replies
are stored, and fields that only one server understands are sent back only to that server.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from greenroom.core._internal import compile_later
from greenroom.llm.endpoint import host_of, is_local, read_setting, server_name
from greenroom.llm.keys import read_key
from greenroom.llm.merged_messages import WEB_IMAGES, MediaLimits

LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
"""The names of the field that limits the length of a reply."""

_ANY = compile_later("")
_REASONING = frozenset({"reasoning", "reasoning_content", "reasoning_details"})

_MIB = 1024 * 1024
_NO_LIMITS = MediaLimits()
_OPENAI_LIMITS = MediaLimits(
    document=50 * _MIB * 4 // 3, request=512 * _MIB, image_types=WEB_IMAGES
)


class HostProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The peculiarities of one server; the defaults suit an unknown server.

    Attributes:
        name: the `Message.provider` of its replies.
        addresses: how it is recognised: its host, a domain above it, or a `:port`. Programs whose
            port others use as well are recognised by nothing but their name.
        base_url: where requests go, with the path that precedes `/chat/completions`; only that path
            if each user has an address of their own.
        key_variables: the environment variables for the key, the vendor's own first.
        base_variables: the environment variables for the base URL.
        limit_field: the field that limits the length of a reply.
        echoed_fields: the fields of its own replies that it accepts back, besides content, refusal
            and calls.
        longest_call_id: the most characters that the id of a tool call may have; None: no limit.
        call_id_length: how many letters and digits every such id must have; None: any number.
        prompt_cache_key: the models that accept this field, which leads requests to the same cache.
        json_schema: whether it accepts a schema as `response_format`; None: not known.
        counts_cache_apart: the models whose `prompt_tokens` do not include cached tokens.
        has_tags: whether the thoughts and calls of a model may come as tags in its text.
        needs_reasoning: whether it refuses a reply with calls that has no `reasoning_content`, such
            as one of another model.
        limits: how large images, documents and requests may be.
    """

    name: str
    addresses: tuple[str, ...] = ()
    base_url: str = ""
    key_variables: tuple[str, ...] = ()
    base_variables: tuple[str, ...] = ()
    limit_field: LimitField = "max_tokens"
    echoed_fields: frozenset[str] = _REASONING | {"extra_content"}
    longest_call_id: int | None = None
    call_id_length: int | None = None
    prompt_cache_key: re.Pattern[str] | None = None
    json_schema: bool | None = None
    counts_cache_apart: re.Pattern[str] | None = None
    has_tags: bool = True
    needs_reasoning: bool = False
    limits: MediaLimits = _NO_LIMITS

    def base(self, env: Mapping[str, str]) -> str:
        """Return the base URL from the environment, else the vendor's own.

        Vendors' variables often have just a host, so missing parts are added.

        Example:
            >>> HOSTS["groq"].base({})
            'https://api.groq.com/openai/v1'
            >>> HOSTS["ollama"].base({"OLLAMA_HOST": "gpu:11434"})
            'http://gpu:11434/v1'
        """
        found = _read_first(self.base_variables, env)
        if not found:
            return self.base_url
        whole = found if "://" in found else f"{self._scheme(found)}://{found}"
        try:
            whole = whole if whole == found else _with_port(whole, self.base_url)
            path = "" if urlsplit(whole).path.strip("/") else urlsplit(self.base_url).path
        except ValueError:  # such as a bracket that is not closed; it is refused where it is used
            return whole
        return whole.rstrip("/") + path

    def _scheme(self, address: str) -> str:
        """Return the scheme of an address without one; only local servers get the key over http."""
        is_plain = self.base_url.startswith("http://") or is_local(f"http://{address}")
        return "http" if is_plain else "https"

    def key(self, env: Mapping[str, str]) -> str:
        """Return the key for this server in the environment, or an empty text.

        Raises:
            ConfigurationError: a variable with `_FILE` names a file that can't be used.
        """
        return read_key(env, *self.key_variables)


def _read_first(variables: Iterable[str], env: Mapping[str, str]) -> str:
    """Return the value of the first of these variables that is set, or an empty text."""
    return next(filter(None, (read_setting(None, env, name) for name in variables)), "")


_OPENAI = HostProfile(
    name="openai",
    addresses=("openai.com",),
    base_url="https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    base_variables=("OPENAI_BASE_URL",),
    limit_field="max_completion_tokens",
    echoed_fields=frozenset(),
    longest_call_id=40,
    prompt_cache_key=_ANY,
    json_schema=True,
    limits=_OPENAI_LIMITS,
    has_tags=False,
)

_PROFILES = (
    _OPENAI,
    HostProfile(
        name="azure",
        addresses=("azure.com", "azure.us", "azure.cn"),
        base_url="/openai/v1",
        key_variables=("AZURE_OPENAI_API_KEY",),
        base_variables=("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT"),
        limit_field="max_completion_tokens",
        echoed_fields=frozenset({"reasoning_content"}),
        longest_call_id=40,
        json_schema=True,
        counts_cache_apart=compile_later("grok"),
        # OpenAI's models; those of other vendors are served there as well.
        prompt_cache_key=compile_later(r"gpt|o\d"),
        limits=_OPENAI_LIMITS,
        has_tags=False,
    ),
    HostProfile(
        name="openrouter",
        addresses=("openrouter.ai",),
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        base_variables=("OPENROUTER_BASE_URL",),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="groq",
        addresses=("groq.com",),
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        base_variables=("GROQ_BASE_URL",),
        limit_field="max_completion_tokens",
        echoed_fields=frozenset({"reasoning"}),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="mistral",
        addresses=("mistral.ai",),
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        echoed_fields=frozenset(),
        call_id_length=9,
        prompt_cache_key=_ANY,
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="deepseek",
        addresses=("deepseek.com",),
        base_url="https://api.deepseek.com",
        key_variables=("DEEPSEEK_API_KEY",),
        echoed_fields=frozenset({"reasoning_content"}),
        json_schema=False,
        has_tags=False,
        needs_reasoning=True,
    ),
    HostProfile(
        name="xai",
        addresses=("x.ai",),
        base_url="https://api.x.ai/v1",
        key_variables=("XAI_API_KEY",),
        echoed_fields=frozenset({"reasoning_content"}),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="ollama",
        addresses=("ollama.com", ":11434"),
        base_url="http://localhost:11434/v1",
        key_variables=("OLLAMA_API_KEY",),
        base_variables=("OLLAMA_HOST",),
        json_schema=True,
    ),
    HostProfile(
        name="vllm",
        base_url="http://localhost:8000/v1",
        key_variables=("VLLM_API_KEY",),
        base_variables=("VLLM_BASE_URL",),
        echoed_fields=frozenset({"reasoning", "reasoning_content"}),
        json_schema=True,
    ),
    HostProfile(
        name="sglang",
        base_url="http://localhost:30000/v1",
        key_variables=("SGLANG_API_KEY",),
        base_variables=("SGLANG_BASE_URL",),
        echoed_fields=frozenset({"reasoning_content"}),
        json_schema=True,
    ),
    HostProfile(
        name="lmstudio",
        base_url="http://localhost:1234/v1",
        key_variables=("LM_API_TOKEN",),
        base_variables=("LMSTUDIO_BASE_URL",),
        echoed_fields=frozenset({"reasoning", "reasoning_content"}),
        json_schema=True,
    ),
    HostProfile(
        name="llamacpp",
        base_url="http://localhost:8080/v1",
        key_variables=("LLAMA_API_KEY",),
        base_variables=("LLAMACPP_BASE_URL",),
        echoed_fields=frozenset({"reasoning_content"}),
        json_schema=True,
    ),
    HostProfile(
        name="together",
        addresses=("together.xyz", "together.ai"),
        base_url="https://api.together.xyz/v1",
        key_variables=("TOGETHER_API_KEY",),
        base_variables=("TOGETHER_BASE_URL",),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="perplexity",
        addresses=("perplexity.ai",),
        base_url="https://api.perplexity.ai",
        key_variables=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
        base_variables=("PERPLEXITY_BASE_URL",),
        echoed_fields=frozenset(),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="cerebras",
        addresses=("cerebras.ai",),
        base_url="https://api.cerebras.ai/v1",
        key_variables=("CEREBRAS_API_KEY",),
        base_variables=("CEREBRAS_BASE_URL",),
        limit_field="max_completion_tokens",
        echoed_fields=frozenset({"reasoning"}),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="fireworks",
        addresses=("fireworks.ai",),
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        base_variables=("FIREWORKS_BASE_URL",),
        echoed_fields=frozenset({"reasoning_content"}),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="huggingface",
        addresses=("huggingface.co",),
        base_url="https://router.huggingface.co/v1",
        key_variables=("HF_TOKEN",),
        has_tags=False,
    ),
    HostProfile(
        name="gemini-openai",
        addresses=("googleapis.com",),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        echoed_fields=frozenset({"extra_content"}),
        json_schema=True,
        has_tags=False,
    ),
    HostProfile(
        name="vercel",
        addresses=("ai-gateway.vercel.sh",),
        base_url="https://ai-gateway.vercel.sh/v1",
        key_variables=("AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
        has_tags=False,
    ),
    HostProfile(
        name="zai",
        addresses=("z.ai", "bigmodel.cn"),
        base_url="https://api.z.ai/api/paas/v4",
        key_variables=("ZAI_API_KEY",),
        echoed_fields=frozenset({"reasoning_content"}),
        has_tags=False,
    ),
    HostProfile(
        name="moonshot",
        addresses=("moonshot.ai", "moonshot.cn"),
        base_url="https://api.moonshot.ai/v1",
        key_variables=("MOONSHOT_API_KEY",),
        echoed_fields=frozenset({"reasoning_content"}),
        has_tags=False,
        needs_reasoning=True,
    ),
    HostProfile(
        name="litellm",
        addresses=(":4000",),
        base_url="http://localhost:4000/v1",
        key_variables=("LITELLM_PROXY_API_KEY", "LITELLM_API_KEY"),
        base_variables=("LITELLM_PROXY_API_BASE", "LITELLM_BASE_URL"),
        echoed_fields=_REASONING | {"extra_content", "thinking_blocks", "provider_specific_fields"},
    ),
)

HOSTS: Mapping[str, HostProfile] = {profile.name: profile for profile in _PROFILES}
"""The known servers, by name."""


def host_profile(url: str) -> HostProfile:
    """Find the profile of the server at this address.

    An unknown server is named after its host, and if it is a local one, after its port as well.

    Example:
        >>> host_profile("https://openrouter.ai/api/v1").name
        'openrouter'
        >>> host_profile("https://llm.example.com/v1").name
        'llm.example.com'
        >>> host_profile("http://localhost:8000/v1").name
        'localhost:8000'
        >>> host_profile("http://localhost:11434/v1").name
        'ollama'
    """
    known = (profile for profile in _PROFILES if any(_is_at(url, at) for at in profile.addresses))
    return next(known, None) or HostProfile(name=server_name(url) or "openai")


def _with_port(url: str, usual: str) -> str:
    """Add the usual port to a URL without one, as vendors' own programs do."""
    parts, port = urlsplit(url), urlsplit(usual).port
    if port is None or parts.port is not None:
        return url
    return parts._replace(netloc=f"{parts.netloc}:{port}").geturl()


def _is_at(url: str, address: str) -> bool:
    if address.startswith(":"):
        try:
            return urlsplit(url).port == int(address[1:])
        except ValueError:
            return False
    return f".{host_of(url)}".endswith(f".{address}")
