"""What runs in a Python of its own is not collected."""

collect_ignore = ["sdk_client.py"]
