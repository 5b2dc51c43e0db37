# SPDX-License-Identifier: Apache-2.0
"""The identities that are derived from a workload's own: seeds, container names, fingerprints of errors."""

from __future__ import annotations

import re
from hashlib import blake2b

from perdure.model.faults import Fault

_NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{12,}|\d+", re.IGNORECASE)


def seed(incarnation: str, generation: int, phase: str) -> str:
    """The seed of the backoff of one step of one generation."""
    return f"{incarnation}/{generation}/{phase}"


def container_name(workload: str, generation: int, incarnation: str) -> str:
    """The name of the container of a generation, for example ``web-g2-1f2e3d4c``."""
    return f"{workload}-g{generation}-{incarnation[:8]}"


def fingerprint(fault: Fault) -> str:
    """Equal for two faults that tell a user the same.

    Numbers and ids are left out: a message that names a source port or a temporary file would differ at every try, and each
    difference would cost a report.
    """
    text = _NUMBERS.sub("#", fault.message)
    return blake2b(f"{fault.kind}|{fault.phase}|{text}".encode(), digest_size=8).hexdigest()
