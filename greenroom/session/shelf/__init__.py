"""What is done with stored sessions by their ids: deleted, archived, searched."""
