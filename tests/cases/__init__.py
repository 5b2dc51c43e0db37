# SPDX-License-Identifier: Apache-2.0
"""Cases from the lives of users of other systems, told end to end: see ``docs/contributing/cases.md``."""
