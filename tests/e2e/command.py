# SPDX-License-Identifier: Apache-2.0
"""The command line as a user has it: processes of their own, with a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from perdure.runtime.processes import PidFile, Process

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = (
    sys.executable,
    "-P",
    "-c",
    f"import sys; sys.path.append({str(ROOT)!r}); from client.cli.app import main; main()",
)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Its output, read as JSON."""
        return json.loads(self.out)


class Perdure:
    """``perdure`` with a home of its own.

    Args:
        home: PERDURE_HOME; manifests are written into its parent.
        variables: more of the environment.
    """

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self.home = home
        # Nothing that was set for the tests themselves may reach the program.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "TEMPORAL_"))
        }
        self.environment = inherited | {"PERDURE_HOME": str(home), **variables}
        self.folder = home.parent

    def __call__(self, *arguments: str, code: int | None = 0, timeout: float = 120, stdin: str | None = None) -> Done:
        """Run a command to its end. It must end with the code; None takes any."""
        process = self.start(*arguments, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL)
        out, err = process.communicate(stdin, timeout=timeout)
        done = Done(process.returncode, out, err)
        if code is not None and done.code != code:
            raise AssertionError(f"perdure {' '.join(arguments)}: code {done.code}, not {code}\n{done.out}{done.err}")
        return done

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def manifest(self, workloads: Mapping[str, Mapping[str, Any]], *, host: str = "edge-1", name: str = "shop") -> str:
        """Write a manifest of workloads that stop at once and retry quickly, and return its file's name."""
        defaults = {
            "host": host,
            "networks": ["none"],
            "stop": {"timeout": "1s"},
            "restartBackoff": {"initial": "200ms", "maximum": "2s"},
            "retry": {"maximumInterval": "2s"},
        }
        document = {"apiVersion": "perdure/v1", "name": name, "defaults": defaults, "workloads": workloads}
        file = self.folder / f"{name}-{len(list(self.folder.glob('*.yaml')))}.yaml"
        file.write_text(json.dumps(document), encoding="utf-8")  # every JSON document is a YAML document
        return file.name

    @property
    def address(self) -> str:
        """Where the Temporal server of its stack is."""
        return self._told("temporalAddress")

    @property
    def fleet(self) -> str:
        """The namespace of its stack."""
        return self._told("fleet")

    def _told(self, key: str) -> str:
        value: str = json.loads((self.home / "stack.json").read_text())[key]
        return value

    def status(self, workload: str) -> dict[str, Any]:
        """What ``describe -o json`` says."""
        found: dict[str, Any] = self("describe", workload, "-o", "json").data
        return found

    def process(self, part: str) -> Process | None:
        """The process of a part of the embedded stack, if it runs."""
        return PidFile(self.home / "run" / f"{part}.pid").running()
