#!/bin/sh
# SPDX-License-Identifier: MIT
# Decode speed of one call beside llama2.c's run.c, on the same weights and threads.
#
#   tools/bench/against_llama2c.sh PATH_TO_RUN MODEL.gguf [THREADS] [ROUNDS]
#
# PATH_TO_RUN is run.c built with: gcc -Ofast -fopenmp -march=native run.c -lm -o run
# The model must be F32. The two take turns, so that both see the same machine; the medians and
# their ratio count. The greedy ids of both must agree, or at least their first 32: -Ofast rounds as
# it likes.
set -eu
run=$1
model=$2
threads=${3:-$(nproc)}
rounds=${4:-7}
tokens=${TOKENS:-256}
bench=${BENCH:-build/bench}
here=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 "$here/gguf_to_llama2c.py" "$model" "$scratch/model.bin" "$scratch/tokenizer.bin"

speed() { sed -n 's/^achieved tok\/s: //p' "$1" | tail -1; }
for round in $(seq "$rounds"); do
    OMP_NUM_THREADS=$threads "$run" "$scratch/model.bin" -z "$scratch/tokenizer.bin" \
        -t 0 -n "$tokens" >"$scratch/theirs.ids" 2>"$scratch/theirs.err"
    speed "$scratch/theirs.err" >>"$scratch/theirs"
    "$bench" "$model" --threads "$threads" --greedy "$tokens" \
        >"$scratch/ours.ids" 2>"$scratch/ours.err"
    speed "$scratch/ours.err" >>"$scratch/ours"
done
python3 - "$scratch" "$threads" "$model" <<'PY'
import statistics, sys
folder, threads, model = sys.argv[1:]
def numbers(name, kind): return [kind(w) for w in open(f"{folder}/{name}").read().split()]
theirs, ours = numbers("theirs", float), numbers("ours", float)
a, b = numbers("theirs.ids", int), numbers("ours.ids", int)
same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
ratios = [o / t for o, t in zip(ours, theirs)]
print(f"{model}, {threads} threads, {len(ours)} rounds, tokens/s: median (least to most)")
for name, values in (("llama2.c", theirs), ("agentix", ours)):
    print(f"  {name:9}{statistics.median(values):9.1f} ({min(values):.1f} to {max(values):.1f})")
print(f"  ratio    {statistics.median(ratios):9.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
      f"first {same} of {min(len(a), len(b))} ids equal")
sys.exit(0 if same >= min(32, len(a)) else 1)
PY
