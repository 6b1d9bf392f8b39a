"""Rules on the disk: read whole or refused whole, written all or nothing, trusted or not."""
