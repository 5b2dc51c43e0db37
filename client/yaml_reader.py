# SPDX-License-Identifier: Apache-2.0
"""Reads YAML 1.2 into trees, and bears with any bytes.

The tree is made from the parser's events, never by a constructor: no tag makes an object, no alias is expanded before its size
is known, and nothing is read deeper or longer than a manifest can be.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from client.problems import Problem
from client.yaml_tree import LONGEST_FILE_BYTES, Mapping, Node, Scalar, Sequence, kind_of, meaning

DEEPEST_NESTING = 32
MOST_NODES = 50_000
"""More than ten thousand workloads of an ordinary kind have. The parser reads some 30,000 in a second."""
MOST_ALIASED_NODES = 10_000
"""How many nodes all aliases of a file may stand for together."""

_QUOTE_KEY = "write the key in quotes"


class _Stop(Exception):
    """What follows cannot be read; the reason is among the problems."""


def read_documents(file: str, raw: bytes) -> tuple[list[Node], list[Problem]]:
    """The documents of a file that hold anything, and all that is wrong with its text."""
    reader = _Reader(file)
    documents: list[Node] = []
    with contextlib.suppress(_Stop):
        documents.extend(reader.documents(reader.decode(raw)))
    return documents, reader.problems


class _Reader:
    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._nodes = 0
        self._aliased = 0

    def _complain(self, line: int, column: int, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self._file, line, column, message, hint))

    def _stop(self, line: int, column: int, message: str, hint: str = "") -> NoReturn:
        self._complain(line, column, message, hint)
        raise _Stop

    def decode(self, raw: bytes) -> str:
        """The text of a file, or a complaint about the first byte that is not text."""
        if len(raw) > LONGEST_FILE_BYTES:
            self._stop(0, 0, f"the file is longer than {LONGEST_FILE_BYTES} bytes", "split it into several files")
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            self._stop(1, 1, "the file is not UTF-8 but UTF-16", "save it as UTF-8")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode("utf-8", errors="replace")
            line, column = _place(before, len(before))
            self._stop(line, column, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8")
        if control := re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text):
            line, column = _place(text, control.start())
            self._stop(line, column, f"character U+{ord(control[0]):04X} cannot stand in YAML", "leave it out")
        return text

    def documents(self, text: str) -> Iterator[Node]:
        """The trees of a text, one after the other."""
        events = self._events(text)
        for event in events:
            if isinstance(event, (StreamStartEvent, StreamEndEvent)):
                continue
            if isinstance(event, DocumentStartEvent):
                if event.version not in (None, (1, 2)):
                    self._complain(*_start(event), "only YAML 1.2 is read", "leave out the %YAML line")
                self._anchors.clear()
                document = self._node(next(events), events, depth=1)
                if not (isinstance(document, Scalar) and document.value is None):
                    yield document

    def _events(self, text: str) -> Iterator[Event]:
        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
            message = (error.problem or "this is not YAML") + (f" ({error.context})" if error.context else "")
            self._stop(line, column, message, _syntax_hint(text, line, message))
        except (YAMLError, ValueError, OverflowError, IndexError, AssertionError) as error:
            self._stop(0, 0, f"this is not YAML: {error}", "")

    def _node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        line, column = _start(event)
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, line, column)
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._stop(line, column, f"the file holds more than {MOST_NODES} values", "split it into several files")
        if depth > DEEPEST_NESTING:
            self._stop(line, column, f"this is nested more than {DEEPEST_NESTING} levels deep", "no manifest is")
        if not isinstance(event, (ScalarEvent, SequenceStartEvent, MappingStartEvent)):
            raise TypeError(f"the parser gave a {type(event).__name__} where a value begins")
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._complain(line, column, f"tag {tag} is not allowed", "leave it out; quotes make a text")
        node: Node
        match event:
            case ScalarEvent():
                is_plain = event.style is None
                text = event.value if is_plain else _joined_surrogates(event.value)
                node = Scalar(line, column, meaning(text) if is_plain else text, text)
            case SequenceStartEvent():
                node = self._sequence(line, column, events, depth)
            case MappingStartEvent():
                node = self._mapping(line, column, events, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, anchor: str, line: int, column: int) -> Node:
        node = self._anchors.get(anchor)
        if node is None:
            self._stop(
                line, column, f"there is no anchor &{anchor} before this", "an anchor must be complete before its alias"
            )
        self._aliased += node.size
        if self._aliased > MOST_ALIASED_NODES:
            message = f"the aliases of this file stand for more than {MOST_ALIASED_NODES} values"
            self._stop(line, column, message, "write what is common into defaults")
        return node

    def _sequence(self, line: int, column: int, events: Iterator[Event], depth: int) -> Sequence:
        sequence = Sequence(line, column)
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            item = self._node(event, events, depth + 1)
            sequence.items.append(item)
            sequence.size += item.size
        return sequence

    def _mapping(self, line: int, column: int, events: Iterator[Event], depth: int) -> Mapping:
        mapping = Mapping(line, column)
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            mapping.size += key.size + value.size
            if self._is_good_key(key) and isinstance(key, Scalar):
                if key.text in mapping.entries:
                    first, _ = mapping.entries[key.text]
                    message = f"key {key.text!r} stands here and at {first.line}:{first.column}"
                    self._complain(key.line, key.column, message, "leave one of the two out")
                else:
                    mapping.entries[key.text] = (key, value)
        return mapping

    def _is_good_key(self, key: Node) -> bool:
        if not isinstance(key, Scalar):
            self._complain(key.line, key.column, f"{kind_of(key)} cannot be a key", _QUOTE_KEY)
            return False
        if key.text == "<<" and key.value == "<<":
            self._complain(
                key.line, key.column, "<< is not part of YAML 1.2", "write what is common into defaults, or out in full"
            )
            return False
        if not isinstance(key.value, str):
            message = f"key {key.text or 'null'} is {kind_of(key)}, not a text"
            self._complain(key.line, key.column, message, f'{_QUOTE_KEY}: "{key.text}"')
            return False
        return True


def _joined_surrogates(text: str) -> str:
    """Characters beyond the 16-bit plane, which JSON writes as two escapes."""
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _start(event: Event) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column of a character, counted from 1."""
    return text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1


def _syntax_hint(text: str, line: int, message: str) -> str:
    """What most often leads to an error of this kind."""
    lines = text.splitlines()
    at = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in at[: len(at) - len(at.lstrip())] or r"'\t'" in message:
        return "indent by spaces, not by tabs"
    if "mapping values are not allowed" in message:
        return "a text that holds ': ' needs quotes; or the line is indented too far"
    if "block end" in message or "block mapping" in message:
        return "look at the indentation of this line and the one before"
    if "flow" in message:
        return "look for a bracket that is not closed, or a comma that is missing"
    if "quoted scalar" in message:
        return "look for a quote that is not closed"
    return ""
