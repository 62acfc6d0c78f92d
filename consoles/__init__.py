"""Consoles: a world behind a network protocol, one worker at a time. `console.proto` is the protocol; see docs/consoles.md."""
