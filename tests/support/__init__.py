# SPDX-License-Identifier: Apache-2.0
"""Real parts for tests, each private to one session: Podman, registries, Temporal servers, images."""
