# SPDX-License-Identifier: Apache-2.0
"""Everything that can be killed is killed at random points, over and over, and no promise may break meanwhile."""
