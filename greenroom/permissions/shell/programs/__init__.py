"""What is known of programs: those that run others, and options that write or run something."""
