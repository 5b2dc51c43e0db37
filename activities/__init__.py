# SPDX-License-Identifier: Apache-2.0
"""Temporal activities: each does one thing to the world of one host."""
