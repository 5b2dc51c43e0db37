# SPDX-License-Identifier: Apache-2.0
"""A registry and a Temporal server in containers serve us as those outside do."""

from __future__ import annotations

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client

from perdure.wire import names
from tests.support.images import Images
from tests.support.podman import IsolatedPodman


def test_what_is_pushed_to_the_registry_can_be_pulled(
    podman: IsolatedPodman, images: Images, registry_in_container: str
) -> None:
    """Push, forget, pull, and get the same image back."""
    destination = f"{registry_in_container}/team/app:1"
    image = images.obedient("containerised")
    digest = images.push(image, destination)
    images.forget(image)
    podman.cli("pull", "--quiet", destination)
    assert podman.cli("image", "inspect", "--format={{.Digest}}", destination) == digest


async def test_temporal_knows_our_search_attributes(temporal_in_container: str) -> None:
    """The server in the container was started as ours are."""
    client = await Client.connect(temporal_in_container)
    answer = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    assert set(names.SEARCH_ATTRIBUTES) <= set(answer.custom_attributes)
