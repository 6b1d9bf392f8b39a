"""Where the work of an agent is counted and limited: steps, model calls, tool calls."""
