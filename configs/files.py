"""Writing small files."""

import pathlib


def replace_text(path: pathlib.Path, text: str) -> None:
  """Writes a file so that a reader sees the old one or the new one whole."""
  partial = path.with_suffix(path.suffix + ".partial")
  partial.write_text(text)
  partial.replace(path)
