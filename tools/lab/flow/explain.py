#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: the plan of a flow file as `agx flow --explain --order helium` prints it, by the reference.

  tools/lab/flow/explain.py [--kv-tokens M] [--share-min S] FILE
"""
import argparse
import sys

import optimise
from flow_file import FlowError, read_flow


def explain(text, kv_tokens, share_min):
    workflow = optimise.build(read_flow(text))
    cost = optimise.Helium(workflow, kv_tokens).cost
    llms, lambdas, inputs, outputs = workflow.given
    lines = [f"flow llm={llms} lambda={lambdas} inputs={inputs} outputs={outputs}",
             f"pruned {workflow.pruned} merged {workflow.merged} left {workflow.left}"]
    for i in cost.order:
        op = workflow.ops[i]
        first = next((at for at, s in enumerate(op.symbols) if optimise.is_value(s)),
                     len(op.symbols))
        lines.append(f"op {op.name} prompt={workflow.weight(op.symbols)} static={first} "
                     f"new={cost.new[i]} out={op.out} columns={','.join(op.columns) or '-'}")
    for k, names in enumerate(optimise.sequences(workflow, cost.order, share_min)):
        lines.append(f"sequence {k} {' '.join(names)}")
    lines.append(f"steps {cost.steps()}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="The plan of a flow file, by the reference.")
    parser.add_argument("--kv-tokens", type=int, default=4096)
    parser.add_argument("--share-min", type=int, default=16)
    parser.add_argument("file")
    words = parser.parse_args()
    try:
        with open(words.file, encoding="utf-8") as file:
            sys.stdout.write(explain(file.read(), words.kv_tokens, words.share_min))
    except FlowError as error:
        sys.exit(f"{words.file}:{error}")


if __name__ == "__main__":
    main()
