"""How much of its model's context window a request took."""

from greenroom.core._internal import cache_short
from greenroom.llm import model_profile
from greenroom.observability import semconv as names
from greenroom.observability.spans import Span, SpanKind

_VENDORS = {theirs: ours for ours, theirs in names.PROVIDERS.items()}


def share_of_window(span: Span) -> float | None:
    """Return the share of the window that a model call's request took; None if it is not known.

    Example:
        >>> said = {names.PROVIDER: "anthropic", names.REQUEST_MODEL: "claude-haiku-4-5"}
        >>> said[names.INPUT_TOKENS] = 50_000
        >>> call = Span("model", "chat", "s-1", ("Ann",), "t", "1", start=1, attributes=said)
        >>> share_of_window(call)
        0.25
    """
    tokens = span.attributes.get(names.INPUT_TOKENS)
    model = span.attributes.get(names.REQUEST_MODEL)
    if span.kind != SpanKind.MODEL or not isinstance(tokens, int) or not model:
        return None
    window = _find_window(str(span.attributes.get(names.PROVIDER)), str(model))
    return tokens / window if window else None


@cache_short(256)
def _find_window(provider: str, model: str) -> int | None:
    vendor = _VENDORS.get(provider, "")
    return model_profile(f"{vendor}:{model}" if vendor else model).context_window
