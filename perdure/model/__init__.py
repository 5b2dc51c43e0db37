# SPDX-License-Identifier: Apache-2.0
"""The nouns of Perdure: standard library and pydantic only; no clock, no randomness, no I/O."""
