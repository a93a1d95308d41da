# SPDX-License-Identifier: MIT
"""Says which package this is, and what the appliance at the address is; without one, the one that
is installed here, or 127.0.0.1:7411."""
from __future__ import annotations

import argparse
import sys

import agentix


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m agentix", description=__doc__)
    parser.add_argument("address", nargs="?", default="")
    parser.add_argument("--key-file", help="a file as `agx --key-file` takes it")
    chosen = parser.parse_args()
    print(f"agentix {agentix.__version__}: {agentix.__file__}")
    try:
        with agentix.connect(chosen.address, key_file=chosen.key_file) as ax:
            said = ax.welcome
            model = said["model"].rstrip(b"\0").decode(errors="replace")
            print(f"{ax.address}: model {model!r}, {said['context_tokens_max']} tokens of context, "
                  f"{said['programs_max']} programs")
            return 0
    except (agentix.Error, OSError, ValueError) as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
