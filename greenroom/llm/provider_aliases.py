"""What other programs call providers, and what to write here instead.

People come with names from other libraries, from vendors' own pages and from memory. Such a name is
refused, since a guess could send a conversation and a key to somebody else, but it is answered.
"""

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "azure-openai": "azure",
    "azure_ai": "azure",
    "azure_openai": "azure",
    "azureopenai": "azure",
    "chatgpt": "openai",
    "claude": "anthropic",
    "fireworks-ai": "fireworks",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "genai": "google",
    "google-genai": "google",
    "google-gla": "google",
    "google_ai": "google",
    "google_genai": "google",
    "googleai": "google",
    "gpt": "openai",
    "grok": "xai",
    "hosted_vllm": "vllm",
    "hf": "huggingface",
    "hugging_face": "huggingface",
    "kimi": "moonshot",
    "litellm_proxy": "litellm",
    "llama-cpp": "llamacpp",
    "llama-server": "llamacpp",
    "llama.cpp": "llamacpp",
    "llama_cpp": "llamacpp",
    "lm-studio": "lmstudio",
    "lm_studio": "lmstudio",
    "mistralai": "mistral",
    "moonshotai": "moonshot",
    "ollama_chat": "ollama",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "openai_chat": "openai",
    "pplx": "perplexity",
    "together_ai": "together",
    "togetherai": "together",
    "x-ai": "xai",
    "x_ai": "xai",
    "z-ai": "zai",
    "zhipu": "zai",
    "zhipuai": "zai",
}
"""Providers by names that they have elsewhere."""

_OWN_SERVERS = frozenset({"jan", "llamafile", "local", "localai", "mlx", "tgi"})
_SIGNED = frozenset(
    {"amazon", "amazon-bedrock", "aws", "bedrock", "bedrock_converse", "google-vertex"}
    | {"google-vertex-anthropic", "google_anthropic_vertex", "google_vertexai", "vertex"}
    | {"vertex-ai", "vertex_ai", "vertexai"}
)
_REACHED_OTHERWISE = _SIGNED | frozenset(
    {"cohere", "databricks", "nvidia", "replicate", "sagemaker"}
    | {"watsonx", "sambanova", "snowflake", "oci", "ai21"}
)


def explain_provider(name: str, model: str = "MODEL") -> str:
    """Say what to write for a provider that has another name here, or none; else return "".

    Example:
        >>> explain_provider("gemini", "gemini-3-pro")
        'write google:gemini-3-pro'
        >>> explain_provider("localai", "qwen3")
        'set OPENAI_BASE_URL to its address, as http://localhost:8000/v1, and write openai:qwen3'
        >>> explain_provider("acme")
        ''
    """
    name = name.lower()
    if name in ALIASES:
        return f"write {ALIASES[name]}:{model}"
    if name in _OWN_SERVERS:
        address = "its address, as http://localhost:8000/v1,"
        return f"set OPENAI_BASE_URL to {address} and write openai:{model}"
    if name in _REACHED_OTHERWISE:
        signed = "; a program in Python can pass `auth` to a provider" if name in _SIGNED else ""
        return (
            f"there is no provider for {name} yet; reach its models as openrouter:MODEL, or as"
            f" litellm:MODEL with a LiteLLM proxy of your own{signed}"
        )
    return ""
