#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Policies on the live appliance, when KV is short: a trace replayed through the sockets.

    tools/bench/serve/live.py bfcl.trace --token-scale 0.1 --programs 200

A first run with KV for all calls measures the working set (blocks that calls own, and blocks that a
later call may find) and the rate of programs that the machine sustains. Then each policy runs in
turn, several times: with KV for a part of the working set on the device and twice that on the host,
and arrivals at a part of that rate. Medians (least to most) of program-level token latency."""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from appliance import BUILD, appliance, free_port, read_stats   # noqa: E402

BIG_BLOCKS = 65536           # as good as endless: 2 GiB of the embedded model's KV


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--policies", default="fcfs,mlfq,plas,atlas",
                        help="each with settings of its own: fcfs:sched.active_set=off")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--token-scale", default="0.1")
    parser.add_argument("--gap-scale", default="0.001")
    parser.add_argument("--load", type=float, default=1.0, help="of the rate that was measured")
    parser.add_argument("--kv", type=float, default=0.1, help="of the working set")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="section.key=value for all")
    return parser.parse_args()


class Live:
    def __init__(self, chosen, directory):
        self.chosen, self.directory = chosen, directory
        self.common = ["engine.threads=1", "sched.batch=8",
                       "kv.sharing=domain", "limits.calls=4096",
                       "limits.calls_per_connection=4096", "limits.calls_per_program=0",
                       "limits.programs=4096", *chosen.set]

    def replay(self, to, rate):
        report = self.directory / "report.json"
        chosen = self.chosen
        subprocess.run([BUILD / "agx", "--to", to, "replay", chosen.trace, "--rate", f"{rate:.6g}",
                        "--programs", str(chosen.programs), "--token-scale", chosen.token_scale,
                        "--gap-scale", chosen.gap_scale, "--json", report],
                       check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text(encoding="utf-8"))

    def run(self, rate, *assignments, watch=None):
        """A fresh appliance, one replay: its report and the statistics at the end."""
        port = free_port()
        with appliance(self.directory, *self.common, *assignments,
                       f"text.listen=127.0.0.1:{port}") as to:
            ended = threading.Event()
            watcher = threading.Thread(target=lambda: watch(port, ended)) if watch else None
            if watcher:
                watcher.start()
            try:
                report = self.replay(to, rate)
            finally:
                ended.set()
                if watcher:
                    watcher.join()
            return report, read_stats(port)

    def measure(self):
        """Blocks of the working set, programs a second that the machine sustains."""
        peak = 0

        def watch(port, ended):
            nonlocal peak
            while not ended.wait(0.05):
                stats = read_stats(port)
                peak = max(peak, stats["kv_blocks_used"] + stats["kv_blocks_cached"])
        report, _ = self.run(1e6, "sched.policy=fcfs", f"kv.device_blocks={BIG_BLOCKS}",
                             "kv.host_ratio=0", "kv.retain_device=1h", "kv.retain_host=1h",
                             "kv.retain_drop=1h", watch=watch)
        return peak, report["programs_per_s"]


def median(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    chosen = arguments()
    policies = chosen.policies.split(",")
    with tempfile.TemporaryDirectory() as directory:
        live = Live(chosen, Path(directory))
        blocks, sustained = live.measure()
        device = max(80, round(blocks * chosen.kv))
        rate = sustained * chosen.load
        more = " or more" if blocks >= BIG_BLOCKS else ""
        print(f"{chosen.trace.name}: {chosen.programs} programs, working set {blocks} "
              f"blocks{more}, {sustained:.1f} programs/s with KV for all; "
              f"now {device} blocks, {rate:.1f} programs/s")
        got = {policy: [] for policy in policies}
        for _ in range(chosen.runs):
            for policy in policies:
                name, *own = policy.split(":")
                got[policy].append(live.run(rate, f"sched.policy={name}", "kv.host_ratio=2",
                                            f"kv.device_blocks={device}", *own))
    print("| policy | mean, ms | p95 | p99 | preemptions | blocks in | tokens fed again |")
    print("|---|---|---|---|---|---|---|")
    for policy, runs in got.items():
        cells = [median([report["token_latency_ms"][what] for report, _ in runs])
                 for what in ("mean", "p95", "p99")]
        cells += [f"{statistics.median([stats[name] for _, stats in runs]):,.0f}"
                  for name in ("preemptions", "swap_in_blocks", "recomputed_tokens")]
        print(f"| {policy} | " + " | ".join(cells) + " |")


main()
