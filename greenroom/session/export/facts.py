"""What a page says about a session before it begins: who, when, how much, from where."""

from greenroom.session.export.content import SessionContent
from greenroom.session.export.printed import time_words, usage_words


def facts(content: SessionContent) -> dict[str, str]:
    """Describe a session in a few words each; what is not known is left out."""
    about = content.metadata
    origin, word = content.origin
    workspace = about.metadata.get("workspace")
    found = {
        "Session": about.session_id,
        "Agent": about.agent_type,
        "Model": f"{about.provider}:{about.model}" if about.provider else about.model,
        "Begun": time_words(about.created_at),
        "Changed": time_words(about.updated_at),
        "Messages": f"{len(content.messages):,}",
        "Used": usage_words(content.messages),
        "Workspace": workspace if isinstance(workspace, str) else "",
        "Subagent of": about.parent_session_id or "",
        f"{word} from".capitalize(): origin,
        "Subagents not in here": ", ".join(content.missing),
    }
    return {name: value for name, value in found.items() if value}
