"""Supervisors, which start agents again, and monitors, which are told of an end."""
