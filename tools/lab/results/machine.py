# SPDX-License-Identifier: MIT
"""Words that many runs have in common."""
WINDOW_S = 600                              # in which programs arrive
# 1.2 TB of host memory are 572,000 blocks of 16 tokens; the preset has 64 GiB.
BIG_HOST = ("--set", "kv.host_ratio=22")
EQUAL = ("--equal-host",)
# What agentix has, and the paper's systems have not.
CUT = (*EQUAL, "--set", "sched.cut_steps=yes")
