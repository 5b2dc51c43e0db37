# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with the machine or its settings, told to a person.

```
Problem
├── SettingsProblem     an environment variable, perdure.toml or temporal.toml says something impossible
├── Unreachable         Temporal does not answer
└── StackProblem        the embedded stack cannot be started or stopped
```

Every one says what happened and where, and its hint what to do. None ever carries a secret.
"""

from __future__ import annotations


class Problem(Exception):
    """The base: a message, and a hint that may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SettingsProblem(Problem):
    """A setting that cannot be used. The message names its variable or its key and file."""


class Unreachable(Problem):
    """Temporal does not answer, or refuses us. The message names the address."""


class StackProblem(Problem):
    """A part of the embedded stack cannot run here. The message names the part."""
