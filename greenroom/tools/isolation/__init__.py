"""Functions that run in a process of their own, and can be killed."""
