"""Child processes that leave nothing behind."""
