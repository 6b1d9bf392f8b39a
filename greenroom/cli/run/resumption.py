"""What a run takes over from the session that it goes on with, and what it says about that."""

import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from greenroom.cli.run.settings import Settings
from greenroom.core import ConfigurationError
from greenroom.llm import LLMProvider, resilient
from greenroom.permissions import PermissionManager
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from greenroom.cli.options import Options

_TOLD, _RULE = 5, 80  # rules that are told of, and characters of each


def model_of_run(
    name: str | None, session: AgentSession, env: Mapping[str, str], settings: Settings
) -> tuple[LLMProvider, tuple[str, ...]]:
    """Open the model that was asked for, else the session's own, else the default; say if need be.

    What fails for a while is retried, a few times and for a minute; the offline model does not fail.

    Raises:
        ConfigurationError: it was asked for, and can't be used.
    """
    model, notes = _open(name, session, env, settings)
    return (model if model.name == "offline" else resilient(model)), notes


def _open(
    name: str | None, session: AgentSession, env: Mapping[str, str], settings: Settings
) -> tuple[LLMProvider, tuple[str, ...]]:
    if name is not None:
        return settings.open(name, env), ()
    note = ""
    if session.model:
        own = f"{session.provider}:{session.model}"
        try:
            return settings.open(own, env), _about_own(session, env, settings)
        except ConfigurationError as error:
            note = f"the session's own model, {own}, can't be used: {error}; "
    model = settings.open(None, env)
    if note:
        return model, (f"{note}{model.name}:{model.model} answers",)
    return model, (_offline(env, settings),) if model.name == "offline" else ()


def _about_own(
    session: AgentSession, env: Mapping[str, str], settings: Settings
) -> tuple[str, ...]:
    """Say what somebody should know who has set a key since the session began without one."""
    if session.provider != "offline":
        return ()
    usual = settings.choose(env).name
    if usual.startswith("offline:"):
        return (_offline(env, settings),)
    return (f"the session's own model is the offline one; --model {usual} takes another",)


def _offline(env: Mapping[str, str], settings: Settings) -> str:
    """Say why the offline model answers, and how to get another."""
    reason = settings.choose(env).reason.removeprefix("since ")
    fix = "; set ANTHROPIC_API_KEY or OPENAI_API_KEY" if reason == "no key is set" else ""
    return f"{reason}, so the offline model answers{fix}"


def take_over(
    session: AgentSession, permissions: PermissionManager, workspace: Path, options: "Options"
) -> tuple[str, ...]:
    """Let the answers hold that the session remembers; say which, and what is not as it was.

    A store inside the workspace may have come with the project, from whoever wrote it: what is
    granted there counts for nothing.
    """
    notes = list[str]()
    before = session.get_metadata("workspace")
    if isinstance(before, str) and before != str(workspace):
        notes.append(f"this session worked in {before} before; now it works in {workspace}")
    if session.grants and _comes_with(workspace, options.sessions):
        session.revoke_grants()
        notes.append(
            "what was remembered in this session does not hold, since it is stored in the project"
        )
    notes += permissions.bind_session(session, workspace)
    if held := [str(rule) for rule in permissions.rules if rule.session == session.session_id]:
        told = ", ".join(shorten(rule, _RULE, placeholder=" …") for rule in held[:_TOLD])
        more = f" and {len(held) - _TOLD} more" if len(held) > _TOLD else ""
        notes.append(f"remembered for this session: {told}{more}")
    return tuple(notes)


def _comes_with(workspace: Path, store: str | None) -> bool:
    if store is None:
        return False
    return Path(os.path.realpath(store)).is_relative_to(os.path.realpath(workspace))
