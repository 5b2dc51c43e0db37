# SPDX-License-Identifier: Apache-2.0
"""The story of ``make demo``: every part is real, everything lives in one folder, and ``make down`` removes it all."""
