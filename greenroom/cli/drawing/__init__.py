"""How things look: colours, margins, Markdown, tool calls, as values that rich draws."""
