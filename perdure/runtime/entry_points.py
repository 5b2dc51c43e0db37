# SPDX-License-Identifier: Apache-2.0
"""How one program of Perdure starts another one, installed or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import perdure

ROOT: Final = Path(perdure.__file__).parent.parent
"""Where the packages are: the site-packages of an installation, or a source tree."""
_BOOT: Final = "import sys; sys.path.append(sys.argv.pop(1)); from {module} import main; main()"


def command_of(script: str, module: str) -> list[str]:
    """The command that runs a console script of ours with the Python of this process.

    Where it is not installed as a script, its ``main`` is called with our folder at the end of the path: neither the
    current folder nor ours can then hide a module of the standard library.
    """
    installed = Path(sys.executable).parent / script
    if installed.is_file():
        return [str(installed)]
    return [sys.executable, "-P", "-c", _BOOT.format(module=module), str(ROOT)]
