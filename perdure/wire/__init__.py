# SPDX-License-Identifier: Apache-2.0
"""What Temporal stores, or two processes must agree on. May import temporalio; does no I/O."""
