"""The ends of replies that a loop must not take for an answer without a word."""

from collections.abc import Sequence

from greenroom.core import Custom, Message, StopReason
from greenroom.core._internal import REFUSALS, RUNTIME
from greenroom.runtime import AgentInternals

_ASK = "Your last reply was empty. Say what you found, or go on."
_ASK_FOR_CALL = "Your last tool call could not be read, so nothing ran. Try again."

_DELIBERATE = REFUSALS | {StopReason.MAX_TOKENS, StopReason.PAUSE}
"""Ends for which asking again would change nothing."""


def ask_again(agent: AgentInternals, reply: Message) -> bool:
    """Ask the model again if its reply to results is empty, or if its call can't be read.

    Models sometimes end their turn right after a tool's result, or write a call that is not one.
    The question joins the history, once for each message before the reply: ask the model again if
    this returns true.

    Args:
        agent: the agent whose history ends with the reply.
        reply: the model's last reply.
    """
    if reply.stop_reason is StopReason.MALFORMED_CALL and not reply.tool_uses:
        if _was_asked_for_call(agent.session.history):
            return False
        agent.session.add_message(Message.user(_ASK_FOR_CALL, sender=RUNTIME))
        return True
    if not _is_empty(reply) or reply.stop_reason in _DELIBERATE:
        return False
    if not _answers_results(agent.session.history):
        return False
    agent.session.add_message(Message.user(_ASK, sender=RUNTIME))
    return True


def warn_of_end(agent: AgentInternals, reply: Message) -> str:
    """Publish and return a warning about the last reply of a turn; empty if nothing is wrong.

    It is a `Custom("model.warning")` chunk: the reply is empty, has a call that can't be read, was
    refused, or ended for a reason that is not known, so it may be incomplete.
    """
    if reply.stop_reason is StopReason.MALFORMED_CALL and not reply.tool_uses:
        text = f"the model's call can't be read ({reply.native_stop_reason[:100] or 'malformed'})"
    elif reply.stop_reason is StopReason.UNKNOWN and reply.native_stop_reason:
        text = f"the reply ended for a reason that is not known: {reply.native_stop_reason[:100]}"
    elif _is_empty(reply):
        text = f"the reply is empty (stop reason: {reply.stop_reason or 'none'})"
    elif reply.stop_reason in REFUSALS:
        reason = reply.native_stop_reason[:100] or reply.stop_reason
        text = f"the model, or a filter, refused to go on, so the reply may end early ({reason})"
    else:
        return ""
    data: dict[str, object] = {"stop_reason": reply.native_stop_reason}
    agent.send_nowait(Custom("model.warning", data, text))
    return text


def is_end(agent: AgentInternals, reply: Message) -> bool:
    """Whether a reply without tool calls ends its turn; if so, `warn_of_end` looks at it."""
    if reply.stop_reason is StopReason.PAUSE or ask_again(agent, reply):
        return False
    warn_of_end(agent, reply)
    return True


def find_answer(history: Sequence[Message]) -> Message | None:
    """Return the last message if it is a whole reply without calls, after which a turn ends."""
    last = history[-1] if history else None
    if last is None or last.role != "assistant" or last.tool_uses:
        return None
    return None if last.stop_reason in (StopReason.INTERRUPTED, StopReason.PAUSE) else last


def _was_asked_for_call(history: Sequence[Message]) -> bool:
    """Whether the history ends with a reply to the question of `ask_again` for a call."""
    asked = Message.user(_ASK_FOR_CALL, sender=RUNTIME)
    return len(history) > 1 and history[-2] == asked


def _is_empty(reply: Message) -> bool:
    return not (reply.tool_uses or reply.text.strip())


def _answers_results(history: Sequence[Message]) -> bool:
    """Whether the history ends with a reply to a message with the results of calls."""
    for message in reversed(history[:-1]):
        if message.role == "assistant":
            return False
        if message.tool_results:
            return True
    return False
