# SPDX-License-Identifier: Apache-2.0
"""Manifests for tests, made without a file."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from client.api import Reconciler
from perdure.model.manifest import API_VERSION, Manifest
from perdure.runtime.connect import Target


def manifest(
    workloads: dict[str, dict[str, Any]], *, host: str = "edge-1", name: str = "test", **more: Any
) -> Manifest:
    """A manifest of workloads on one host, without networks, that stop at once and restart quickly."""
    defaults = {
        "host": host,
        "networks": ["none"],
        "stop": {"timeout": "1s"},
        "restartBackoff": {"initial": "200ms", "maximum": "2s"},
        "retry": {"maximumInterval": "2s"},
    }
    document = {"apiVersion": API_VERSION, "name": name, "defaults": defaults, "workloads": workloads, **more}
    return Manifest.model_validate(document)


def reconciler(client: Client, address: str) -> Reconciler:
    """The Python client, on a connection that the test has made."""
    return Reconciler(client, Target(address, client.namespace, "the test", None), "test")
