"""What a run is made of: its session, rules, sandbox, folders and log."""
