# SPDX-License-Identifier: Apache-2.0
"""Temporal workflows: they wait, order and remember. They decide nothing about containers."""
