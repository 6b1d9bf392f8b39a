"""The one place that names the HTTP library; another one with httpx's interface goes in here."""

import httpx as httpx  # noqa: PLC0414 (the others take it from here)
