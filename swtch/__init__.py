# SPDX-License-Identifier: Apache-2.0
"""The swtch lab: what does it cost to switch threads here, and why?"""

__version__ = "0.1.0"
