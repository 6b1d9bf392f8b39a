"""What a person's answer leaves behind: the rules that it proposes, and those of one session."""
