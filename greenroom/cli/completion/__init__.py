"""Completing a command line at the press of a key.

`script` is what a shell loads. At each press it runs the hidden `greenroom complete` (`command`), which
reads the line typed so far (`line`), finds out what may stand at its end (`place`), and prints that.
"""
