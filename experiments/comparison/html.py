"""HTML as a tree, so that text from files is escaped wherever it stands."""

import base64
import re
import xml.etree.ElementTree as ET

Element = ET.Element
Child = ET.Element | str

# Not within a number.
_MARKS = re.compile(r"(?<=[_.=/,:])(?=[^\W\d])|(?<==)(?=\d)")
_TYPES = {
  "png": "image/png",
  "gif": "image/gif",
  "webp": "image/webp",
  "jpg": "image/jpeg",
  "svg": "image/svg+xml",
  "mp4": "video/mp4",
  "webm": "video/webm",
}


def element(tag: str, *children: Child, **attributes: str) -> Element:
  """An element with its content.

  Args:
    tag: its name.
    children: elements and text, in order.
    attributes: by name, in which "_" stands for "-" and a last "_" for nothing, as in `class_`.
  """
  made = ET.Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
  last: Element | None = None
  for child in children:
    if isinstance(child, str):
      if last is None:
        made.text = (made.text or "") + child
      else:
        last.tail = (last.tail or "") + child
    else:
      made.append(child)
      last = child
  return made


def breakable(text: str) -> list[Child]:
  """Text that may be broken after the marks within names, as in "learning_rate=0.001"."""
  parts = _MARKS.split(text)
  return [child for part in parts for child in (part, element("wbr"))][:-1]


def document(title: str, style: str, body: Element) -> str:
  """A whole page.

  Args:
    title: of the window.
    style: CSS.
    body: the element `body`.
  """
  head = element(
    "head",
    element("meta", charset="utf-8"),
    element("meta", name="viewport", content="width=device-width, initial-scale=1"),
    element("meta", name="color-scheme", content="light dark"),
    element("title", title),
    element("style", style),
  )
  page = element("html", head, body, lang="en")
  return f"<!DOCTYPE html>\n{ET.tostring(page, encoding='unicode', method='html')}\n"


def data_uri(content: bytes, suffix: str) -> str:
  """A file as an address that holds its content.

  Args:
    content: of the file.
    suffix: of its name, such as "png".
  """
  return f"data:{_TYPES[suffix]};base64,{base64.b64encode(content).decode()}"


def is_embeddable(suffix: str) -> bool:
  """Whether browsers show files with this suffix."""
  return suffix in _TYPES
