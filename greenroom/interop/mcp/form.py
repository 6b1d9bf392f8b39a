"""What a person at a client is asked, as a form that clients show, and what the answer means."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import mcp_types as types

from greenroom.core import Answer, PermissionRequest, RuleDecision, ToolError
from greenroom.core._internal import clip, describe_effects, exact, thaw
from greenroom.schemas._internal import InputValidator

ALLOW = "allow"
"""The field of a form that says whether a call may run."""

_ANSWER = "answer"
_QUESTION = "question"
_MAX_TEXT = 20_000  # characters of a question
_SIMPLE = ("string", "number", "integer", "boolean")
_YES_OR_NO: dict[str, object] = {
    "type": "object",
    # A client that takes the defaults by itself allows nothing.
    "properties": {ALLOW: {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": [ALLOW],
}
_WORDS: dict[str, object] = {
    "type": "object",
    "properties": {_ANSWER: {"type": "string", "title": "Your answer"}},
    "required": [_ANSWER],
}


@dataclass(frozen=True)
class Form:
    """A question to the person at a client.

    Attributes:
        request: what is asked.
        key: what the question is called where a client answers by name.
        text: the question.
        schema: what the answer holds.
    """

    request: PermissionRequest
    key: str
    text: str
    schema: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, request: PermissionRequest) -> "Form | None":
        """Make the form of a request; None if no form may ask it, as for a secret."""
        if request.credential:
            return None
        if request.fields is not None:
            fields = thaw(request.fields)
            text = exact(request.details or request.action)
            key = str(fields.get("title") or _QUESTION)
            return cls(request, key, clip(text, _MAX_TEXT), fields) if _is_flat(fields) else None
        if request.options is not None:
            return cls(request, _QUESTION, clip(exact(request.details), _MAX_TEXT), _WORDS)
        return cls(request, ALLOW, _describe(request), _YES_OR_NO)

    @property
    def may_be_answered_ahead(self) -> bool:
        """Whether an answer counts that came with the call, before it was asked."""
        return self.request.fields is not None

    @property
    def params(self) -> types.ElicitRequestFormParams:
        """The form as the protocol has it."""
        return types.ElicitRequestFormParams(message=self.text, requested_schema=self.schema)

    def read(self, result: types.ElicitResult, by: str) -> Answer | None:
        """Return the answer that a client sent; None if it does not fit the form."""
        if result.action != "accept":
            return Answer(RuleDecision.DENY, by=by)
        content: dict[str, object] = dict(result.content or {})
        try:
            fault = InputValidator(_QUESTION, self.schema).fault(content)
        except ToolError:
            fault = "the form can't be used"
        if fault:
            return None
        if self.request.fields is not None:
            return Answer(RuleDecision.ALLOW, by=by, input=content)
        if self.request.options is not None:
            return Answer(RuleDecision.ALLOW, by=by, message=str(content[_ANSWER]))
        is_allowed = content[ALLOW] is True
        return Answer(RuleDecision.ALLOW if is_allowed else RuleDecision.DENY, by=by)


def _describe(request: PermissionRequest) -> str:
    """Say what would run, with all that a person has to see before they allow it."""
    parts = (
        f"May this call run? {request.action}",
        request.details,
        request.diff,
        request.runs_as and f"It is read as: {request.runs_as}",
        *(f"Warning: {each}" for each in request.warnings),
        "\n".join(describe_effects(request.effects)),
        request.cwd and f"In {request.cwd}",
        request.sandbox and f"Sandbox: {request.sandbox}",
        request.reason,
    )
    return clip("\n\n".join(exact(each) for each in parts if each), _MAX_TEXT)


def _is_flat(schema: Mapping[str, object]) -> bool:
    """Whether clients can show it: they take texts, numbers, yes or no, and choices."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return False
    return all(
        isinstance(each, dict) and (each.get("type") in _SIMPLE or _is_choice(each))
        for each in properties.values()
    )


def _is_choice(schema: Mapping[str, object]) -> bool:
    items = schema.get("items")
    return schema.get("type") == "array" and isinstance(items, dict) and "properties" not in items
