# SPDX-License-Identifier: MIT
"""usage: python3 -m agentix [ADDRESS]

Says which package this is, and what the appliance at the address is; without one, the
one that is installed here, or 127.0.0.1:7411."""
from __future__ import annotations

import sys

import agentix


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    print(f"agentix {agentix.__version__}: {agentix.__file__}")
    try:
        with agentix.connect(*arguments) as ax:
            said = ax.welcome
            model = said["model"].rstrip(b"\0").decode(errors="replace")
            print(f"{ax.address}: model {model!r}, {said['context_tokens_max']} tokens of context, "
                  f"{said['programs_max']} programs")
            return 0
    except (agentix.Error, ValueError) as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
