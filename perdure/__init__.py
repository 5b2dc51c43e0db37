# SPDX-License-Identifier: Apache-2.0
"""Perdure: a durable reconciler of containers on edge hosts."""

__version__ = "0.1.0"
