# SPDX-License-Identifier: Apache-2.0
"""The decisions of Perdure: pure functions of the model, numbers and a seed."""
