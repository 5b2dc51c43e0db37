# SPDX-License-Identifier: Apache-2.0
"""Make a small image out of the machine's own static busybox, and push it to a registry.

Neither a build tool nor the internet is asked: an image is a tar of files, two JSON documents, and four HTTP requests.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}

SERVE = "trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait"
"""A shell stands before the web server because a process with pid 1 that has no handler ignores SIGTERM."""


@dataclass(frozen=True, slots=True)
class Image:
    """One image, ready to be pushed."""

    layer: bytes
    config: bytes

    @property
    def manifest(self) -> bytes:
        """The document that ties the two together."""
        return json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": {"mediaType": CONFIG_TYPE, "digest": digest(self.config), "size": len(self.config)},
                "layers": [{"mediaType": LAYER_TYPE, "digest": digest(self.layer), "size": len(self.layer)}],
            }
        ).encode()


def digest(content: bytes) -> str:
    """How a registry names a blob."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def web_server(page: str) -> Image:
    """An image that serves one page on port 8080."""
    layer = busybox_rootfs({"www/index.html": page.encode()})
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sh", "-c"], "Cmd": [SERVE], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
    }
    return Image(layer=gzip.compress(layer, mtime=0), config=json.dumps(config).encode())


def busybox_rootfs(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of a root file system: busybox under the names that are used here, and these files.

    Raises:
        FileNotFoundError: there is no busybox on this machine.
    """
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("there is no busybox on PATH: install the package busybox-static")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", *sorted({str(Path(name).parent) for name in files})):
            _add(tar, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        _add(tar, "bin/busybox", Path(busybox).read_bytes(), mode=0o755)
        for applet in ("sh", "httpd", "sleep", "cat", "wget"):
            _add(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        for name, content in {"etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", **files}.items():
            _add(tar, name, content)
    return archive.getvalue()


def push(image: Image, registry: str, repository: str, tag: str) -> str:
    """Push to a registry that speaks plain HTTP, and return the name to pull by.

    Raises:
        httpx.HTTPError: the registry refused, or does not answer.
    """
    with httpx.Client(base_url=f"http://{registry}/v2/{repository}/", timeout=30, trust_env=False) as client:
        for blob in (image.layer, image.config):
            place = client.post("blobs/uploads/").raise_for_status().headers["location"]
            client.put(
                place, params=dict(httpx.URL(place).params) | {"digest": digest(blob)}, content=blob
            ).raise_for_status()
        headers = {"content-type": MANIFEST_TYPE}
        client.put(f"manifests/{tag}", content=image.manifest, headers=headers).raise_for_status()
    return f"{registry}/{repository}:{tag}"


def _add(
    tar: tarfile.TarFile,
    name: str,
    content: bytes = b"",
    *,
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    link: str = "",
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(content)
    tar.addfile(entry, io.BytesIO(content))
