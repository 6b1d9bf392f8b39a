"""What is not collected here."""

collect_ignore = ["litellm"]  # it is loaded by another program, with packages of its own
