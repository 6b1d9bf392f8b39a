"""Who speaks in a message that no person has sent: a summary, or the memory."""

__all__ = ["RECALLED", "SUMMARY"]

SUMMARY = "summary"
"""The `Message.sender` of the summary that a compacted conversation begins with."""

RECALLED = "memory"
"""The `Message.sender` of what was recalled."""
