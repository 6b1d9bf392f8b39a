"""What one tool call would do, each fact small enough for a rule to judge; its words, paths, hosts."""
