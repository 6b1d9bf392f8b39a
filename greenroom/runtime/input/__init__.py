"""What comes to an agent: input, answers to its requests, results of tools that the client runs."""
