"""Runs side by side: finds them, lists them, and compares them on one page."""
