"""The terminal itself: a real one with an input line, and a plain one."""
