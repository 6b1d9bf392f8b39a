"""Questions of an agent as A2A shows them, and what a client's message answers."""

import hashlib

import msgspec

from greenroom.core import PermissionRequest, RuleDecision
from greenroom.core._internal import serde
from greenroom.interop.a2a_wire import Message, Part
from greenroom.interop.serving.a2a_faults import invalid

_YES, _NO = {"allow", "yes"}, {"deny", "no"}
_LONGEST = 100_000  # characters of what is shown


class GivenAnswer(msgspec.Struct, frozen=True):
    """What a client answers.

    Attributes:
        decision: allow or deny.
        message: words for the agent: the answer itself, to a question in words.
        input: the object that was asked for, or the changed input of a call.
        remember: whether the session remembers it.
        question: the mark of the question that it answers; empty for the one last shown.
    """

    decision: RuleDecision
    message: str | None = None
    input: dict[str, object] | None = None
    remember: bool = False
    question: str = ""


def mark_of(request: PermissionRequest) -> str:
    """Return what tells a question from any other, even from a later one about a changed call."""
    digest = hashlib.sha256(f"{request.request_id}\0{request.digest}".encode())
    return digest.hexdigest()[:24]


def describe_question(request: PermissionRequest) -> tuple[Part, Part]:
    """Describe a question for people, and how to answer it for programs."""
    lines = (request.action, request.details, request.diff, *request.warnings)
    place = f"in {request.cwd}" if request.cwd and request.options is None else ""
    text = "\n".join(filter(None, (*lines, place))) or request.tool_name
    data: dict[str, object] = {"question": mark_of(request), "kind": _kind_of(request)}
    if request.options:
        data["options"] = list(request.options)
    if request.fields is not None:
        data["schema"] = msgspec.to_builtins(request.fields)
    return Part(text[:_LONGEST]), Part(data=data)


def _kind_of(request: PermissionRequest) -> str:
    if request.fields is not None:
        return "form"
    return "permission" if request.options is None else "words"


def read_answer(request: PermissionRequest, message: Message) -> GivenAnswer:
    """Read a client's message as the answer to a question.

    Raises:
        TaskRefusedError: it is none.
    """
    data = [each.data for each in message.parts if each.kinds == ("data",)]
    if data:
        return _read_data(data[0])
    text = message.text.strip()
    if not text:
        raise invalid("message.parts", "an answer is a text, or data with a decision")
    match _kind_of(request):
        case "words":
            return GivenAnswer(RuleDecision.ALLOW, text)
        case "form":
            raise invalid(
                "message.parts", 'answer with data: {"decision": "allow", "input": {…}}, or deny'
            )
        case _ if text.lower() in _YES:
            return GivenAnswer(RuleDecision.ALLOW)
        case _:
            # Whatever else is said, nobody has said yes.
            return GivenAnswer(RuleDecision.DENY, None if text.lower() in _NO else text)


def _read_data(data: object) -> GivenAnswer:
    try:
        given = serde.convert(data, GivenAnswer)
    except msgspec.ValidationError as error:
        raise invalid("message.parts", f"the data is not an answer: {error}") from error
    if given.decision is RuleDecision.ASK:
        raise invalid("message.parts", "a decision is allow or deny")
    return given
