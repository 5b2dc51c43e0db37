# SPDX-License-Identifier: Apache-2.0
"""What every system in the benchmark is asked to do, in its own way and with its own settings wherever these matter."""

from __future__ import annotations

from typing import Protocol


class Contestant(Protocol):
    """One way to keep containers running."""

    @property
    def name(self) -> str:
        """For the report."""

    @property
    def key(self) -> str:
        """Begins the names of its containers: they all write into one folder."""

    async def run(self, *names: str, image: str) -> None:
        """Ask for containers that are to run from now on, whatever happens to them. They may run a little later."""

    async def remove(self, *names: str) -> None:
        """End and remove them, and return when they are gone."""

    async def pid(self, name: str) -> int:
        """The main process of a container. Raises LookupError where none runs."""

    async def remove_by_hand(self, name: str) -> None:
        """Remove the container by the engine's own command, behind the back of whoever watches over it."""

    async def crash(self, *names: str) -> float:
        """Kill -9 what watches over the containers.

        Returns:
            Seconds from the start of the next process until it has all of these, running, in its care.
        """

    def cpu(self) -> dict[str, float]:
        """CPU seconds used so far, by part."""

    def memory(self) -> float:
        """MiB in use by its own processes, what they share counted once (PSS); the containers themselves left out."""
