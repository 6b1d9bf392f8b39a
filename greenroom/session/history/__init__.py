"""What a history holds and what it adds up to; nothing here touches a file."""
