"""What an agent tells: chunks in a ring, and those who read them."""
