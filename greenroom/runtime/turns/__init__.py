"""Turns: what an interrupt cancels, and how it is cleaned up after."""
