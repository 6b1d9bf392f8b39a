"""What variables may hold, and what they change."""
