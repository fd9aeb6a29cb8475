# SPDX-License-Identifier: Apache-2.0
"""The work behind each command of the command line; imported when one runs."""
