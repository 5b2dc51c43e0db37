# SPDX-License-Identifier: Apache-2.0
"""Reads the manifests that a user names: files, directories and standard input.

Either all of them are good, or nothing is returned and everything that is wrong is told at once, each with its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from client.problems import ManifestError, Problem
from client.yaml_tree import LONGEST_FILE_BYTES, Node, key_node, plain_data

if TYPE_CHECKING:
    from perdure.model.manifest import Manifest

__all__ = ["STDIN", "LoadedManifest", "ManifestError", "Problem", "load"]

STDIN = "-"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    """A good manifest and where it came from."""

    manifest: Manifest
    source: str
    """The file as the user named it, or ``<stdin>``."""
    line: int
    """Where it begins in the file."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """Who wants a workload on a host."""

    file: str
    line: int
    column: int


def load(sources: Sequence[str], *, stdin: BinaryIO | None = None) -> list[LoadedManifest]:
    """Read all manifests of the sources, in their order.

    Args:
        sources: Files, directories (their ``*.yaml`` and ``*.yml``, by name), or ``-`` for standard input.
        stdin: What ``-`` reads; standard input unless a test says otherwise.

    Raises:
        ManifestError: Anything is wrong with any of them.
    """
    problems: list[Problem] = []
    documents: list[tuple[str, Node, Manifest]] = []
    claims: dict[tuple[str, str], _Claim] = {}
    for file, raw in _read(sources, stdin, problems):
        for document, manifest in _manifests(file, raw, problems):
            documents.append((file, document, manifest))
            problems.extend(_claim(file, document, manifest, claims))
    problems.extend(_cycles(documents))
    if problems:
        raise ManifestError(tuple(problems))
    return [LoadedManifest(manifest, file, document.line) for file, document, manifest in documents]


def _cycles(documents: Sequence[tuple[str, Node, Manifest]]) -> Iterator[Problem]:
    """Workloads that wait for each other, in one manifest or across several."""
    from client import cycles  # noqa: PLC0415 - as slow to load as the others

    yield from cycles.in_files(documents)


def _read(sources: Sequence[str], stdin: BinaryIO | None, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file, one byte longer than allowed at most."""
    seen: set[str] = set()
    for source in _files(sources, problems):
        file = "<stdin>" if source == STDIN else source
        if file in seen:
            problems.append(Problem(file, 0, 0, "it is named twice", "name each file once"))
            continue
        seen.add(file)
        try:
            if source == STDIN:
                yield file, (stdin or sys.stdin.buffer).read(LONGEST_FILE_BYTES + 1)
            else:
                with Path(source).open("rb") as stream:
                    yield file, stream.read(LONGEST_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            problems.append(_unreadable(file, error))


def _files(sources: Iterable[str], problems: list[Problem]) -> Iterator[str]:
    """The sources with directories replaced by what is in them."""
    for source in sources:
        if not source:
            problems.append(
                Problem("''", 0, 0, "a file without a name cannot be read", "name a file, a directory or -")
            )
            continue
        if source == STDIN or not Path(source).is_dir():
            yield source
            continue
        try:
            found = sorted(path for path in Path(source).iterdir() if path.suffix in _SUFFIXES and path.is_file())
        except OSError as error:
            problems.append(_unreadable(source, error))
            continue
        if not found:
            problems.append(Problem(source, 0, 0, "the directory holds no *.yaml or *.yml", "name the file itself"))
        yield from map(str, found)


def _unreadable(file: str, error: OSError | ValueError) -> Problem:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Problem(
        file.replace("\0", "\\0"), 0, 0, f"it cannot be read: {reason}", "check the path and its permissions"
    )


def _manifests(file: str, raw: bytes, problems: list[Problem]) -> Iterator[tuple[Node, Manifest]]:
    """The good manifests of a file, each with its document; what is wrong is added to the problems."""
    # Half a second of a slow machine's time, which `--help` need not pay.
    from pydantic import ValidationError  # noqa: PLC0415

    from client.diagnosis import diagnose  # noqa: PLC0415
    from client.yaml_reader import read_documents  # noqa: PLC0415
    from perdure.model.manifest import Manifest  # noqa: PLC0415

    documents, found = read_documents(file, raw)
    for document in documents:
        try:
            yield document, Manifest.model_validate(plain_data(document))
        except ValidationError as error:
            found.extend(diagnose(file, document, error))
    if not documents and not found:
        found.append(Problem(file, 0, 0, "there is no manifest in it", "begin it with apiVersion: perdure/v1"))
    problems.extend(sorted(found))


def _claim(file: str, document: Node, manifest: Manifest, claims: dict[tuple[str, str], _Claim]) -> Iterator[Problem]:
    """Enter the workloads of a manifest, and complain about those that are there already."""
    for name, entry in manifest.workloads.items():
        key = key_node(document, ("workloads", name))
        claim = _Claim(file, key.line, key.column)
        for host in entry.on_hosts():
            first = claims.setdefault((host, name), claim)
            if first != claim:
                message = f"workload {host}/{name} stands here and at {first.file}:{first.line}:{first.column}"
                yield Problem(file, key.line, key.column, message, "rename one of the two, or leave it out")
