# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the stories: registries that say nothing, or are not there."""

from __future__ import annotations

import gzip
import json
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from demo import image as images
from demo.image import ARCHITECTURES, Image, busybox_rootfs, digest
from demo.registry import Registry, free_port


@contextmanager
def silent_registry() -> Iterator[str]:
    """Something that accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        yield f"localhost:{listener.getsockname()[1]}"


def refusing_registry() -> str:
    """A port where nobody listens."""
    return f"localhost:{free_port()}"


def push(registry: Registry, *names: str) -> dict[str, str]:
    """Push an image for each name, no two with a layer in common; returns what to pull by name."""
    return {name: images.push(_image(name), registry.address, f"bench/{name}", "1") for name in names}


def _image(mark: str) -> Image:
    layer = busybox_rootfs({"mark": mark.encode()})
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    return Image(layer=gzip.compress(layer, mtime=0), config=json.dumps(config).encode())
