# SPDX-License-Identifier: Apache-2.0
"""Which images this host can run.

Podman pulls and starts an image of another architecture without a word; all that is seen then is a container that ends
with `exec format error` again and again.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from activities.engine import EngineFault
from activities.translate import engine_fault
from perdure.model.faults import FaultKind, Phase

_OURS: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm", "i686": "386", "i386": "386"}
"""What images call a machine, where it is not what the kernel calls it."""
_RUNS_ALSO: Final = {"amd64": ("386",), "arm64": ("arm",)}
"""Which architectures a processor runs besides its own."""
_EMULATORS: Final = {"arm64": "aarch64", "amd64": "x86_64", "386": "i386"}
"""What binfmt_misc calls them, where it is not the same."""


def our_architecture() -> str:
    """What images for this host are made for. Podman behind a Unix socket has our kernel."""
    machine = platform.machine()
    return _OURS.get(machine, machine)


def can_run(architecture: str, ours: str) -> bool:
    """Whether a host runs images of an architecture: by its processor, or by an emulator that the kernel knows."""
    if not architecture or architecture == ours or architecture in _RUNS_ALSO.get(ours, ()):
        return True
    emulator = Path("/proc/sys/fs/binfmt_misc") / f"qemu-{_EMULATORS.get(architecture, architecture)}"
    return emulator.exists()


def check_architecture(image: Mapping[str, Any], phase: Phase, doing: str) -> None:
    """Raise WrongArchitecture for an inspected image that this host cannot run."""
    architecture = str(image.get("Architecture") or "")
    if not can_run(architecture, our_architecture()):
        raise wrong_architecture([architecture], phase, doing)


def wrong_architecture(offered: Iterable[str], phase: Phase, doing: str) -> EngineFault:
    """The fault, with both sides in its text."""
    ours = our_architecture()
    text = f"the image is made for {', '.join(offered)}, and this host is {ours}"
    return engine_fault(FaultKind.WRONG_ARCHITECTURE, phase, doing, text, architecture=ours)
