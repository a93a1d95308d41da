#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs served by the appliance and by llama-server: the same trace, model, threads and slots.

    tools/bench/serve/beside_peers.py bfcl.trace --peer-bin DIR [--programs 200] [--rates 1,2,4]

Open loop: programs arrive as the trace says, scaled to a rate; a call goes out when the calls
before it have ended and its tool gap is over. `agx replay` drives the appliance, and this script
drives llama-server: it sends ids and asks for ids, greedily, exactly as many as the trace says.
Both have KV for SLOTS calls of a whole context and no more. For each rate, alternating:
milliseconds for each token over the critical path (means over programs), programs a second, and the
ratio; then the rate that each sustains at equal latency. Prompts share the same parts as in the
trace; their ids are not those of `agx replay`. Without a peer's llama-server it says "not
measured"."""
import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])
from peers import NotMeasured, add_arguments, model # noqa: E402
from appliance import BUILD, appliance, free_port   # noqa: E402

BLOCK_TOKENS, PLAIN_FIRST, VOCAB = 16, 3, 32000
PATIENCE_S = 600


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    add_arguments(parser, "15m", "q8_0")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--rates", default="1,2,4", help="programs a second")
    parser.add_argument("--rates-alone", default="", metavar="RATES",
                        help="of the appliance alone: beyond what a peer sustains")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--context", type=int, default=1024, help="tokens of a call at most")
    parser.add_argument("--token-scale", type=float, default=0.1)
    parser.add_argument("--gap-scale", type=float, default=0.01)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


# ---- the trace ----------------------------------------------------------------------------------

class Call:
    def __init__(self, line):
        words = dict(word.split("=", 1) for word in line.split()[2:])
        self.after = [] if words["after"] == "-" else [int(n) for n in words["after"].split(",")]
        self.gap_s = int(words["gap"]) / 1e6
        self.parts = [part.split(":") for part in words["in"].split("+")]
        self.out = int(words["out"])


def read_trace(path, count):
    """(arrival in seconds, calls) of the first programs."""
    programs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("program "):
            if len(programs) == count:
                break
            programs.append((int(line.split()[2]) / 1e6, []))
        elif line.startswith("call "):
            programs[-1][1].append(Call(line))
    return programs


class Prompts:
    """The prompts of one program, and what it has got; lengths are those of
        tools/trace/prompt.c."""
    def __init__(self, chosen, program, calls):
        self.chosen, self.program, self.calls = chosen, program, calls
        self.whole, self.outputs = {}, {}

    def scaled(self, tokens):
        return max(1, round(int(tokens) * self.chosen.token_scale))

    def wanted(self, number):
        return min(self.scaled(self.calls[number].out), self.chosen.context // 2)

    def part(self, number, index, part):
        kind = part[0]
        if kind in "su":
            key = part[1] if kind == "s" else f"{self.program}.{number}.{index}"
            chance = random.Random(key)
            return [chance.randrange(PLAIN_FIRST, VOCAB) for _ in range(self.scaled(part[-1]))]
        ids = (self.whole if kind == "p" else self.outputs)[int(part[1])]
        return ids[:self.scaled(part[2])] if len(part) > 2 else ids

    def prompt(self, number):
        """A prompt that is too long loses its front."""
        self.whole[number] = [token for index, part in enumerate(self.calls[number].parts)
                              for token in self.part(number, index, part)]
        return self.whole[number][-(self.chosen.context - self.wanted(number)):]


# ---- llama-server -------------------------------------------------------------------------------

async def post(port, path, body):
    """One HTTP exchange; the JSON of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = json.dumps(body).encode()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                     .encode() + data)
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    status = head.split(b" ", 2)[1] if b" " in head else b"no answer"
    if status != b"200":
        said = content[:200].decode(errors="replace")
        raise NotMeasured(f"llama-server: {status.decode()} {said}")
    return json.loads(content)


class Replay:
    """All programs of a trace against one server."""
    def __init__(self, chosen, port, programs, rate):
        self.chosen, self.port, self.programs = chosen, port, programs
        first, last = programs[0][0], programs[-1][0]
        natural = (len(programs) - 1) / (last - first) if last > first else rate
        self.stretch = natural / rate
        self.latencies = []

    async def call(self, prompts, number, before):
        """Seconds of the critical path up to this call's end."""
        call = prompts.calls[number]
        path_s = max([await before[earlier] for earlier in call.after], default=0)
        await asyncio.sleep(call.gap_s * self.chosen.gap_scale)
        begun = time.monotonic()
        said = await post(self.port, "/completion", {
            "prompt": prompts.prompt(number), "n_predict": prompts.wanted(number),
            "temperature": 0, "ignore_eos": True, "cache_prompt": True, "return_tokens": True})
        ids = said.get("tokens", [])
        if len(ids) != prompts.wanted(number):
            raise NotMeasured(f"llama-server returned {len(ids)} ids instead of "
                              f"{prompts.wanted(number)}")
        prompts.outputs[number] = ids
        return path_s + time.monotonic() - begun

    async def program(self, index, arrival_s, calls):
        await asyncio.sleep((arrival_s - self.programs[0][0]) * self.stretch)
        prompts = Prompts(self.chosen, index, calls)
        tasks = []
        for number in range(len(calls)):
            tasks.append(asyncio.create_task(self.call(prompts, number, tasks)))
        path_s = max(await asyncio.gather(*tasks))
        self.latencies.append(1000 * path_s / sum(map(len, prompts.outputs.values())))

    async def run(self):
        begun = time.monotonic()
        await asyncio.gather(*[self.program(index, *program)
                               for index, program in enumerate(self.programs)])
        return statistics.mean(self.latencies), len(self.programs) / (time.monotonic() - begun)


async def ready(port, process):
    for _ in range(PATIENCE_S * 10):
        if process.poll() is not None:
            raise NotMeasured(f"llama-server ended with {process.returncode} before it served")
        try:
            await post(port, "/completion", {"prompt": [1], "n_predict": 1})
            return
        except (OSError, NotMeasured):
            await asyncio.sleep(0.1)
    raise NotMeasured("llama-server did not begin to serve")


def peer_run(chosen, peer, path, programs, rate):
    """Milliseconds for each token, programs a second."""
    port = free_port()
    words = [peer.tool("llama-server"), "-m", path, "--host", "127.0.0.1", "--port", port,
             "-np", chosen.slots, "-c", chosen.slots * chosen.context, "-t", chosen.threads,
             "-tb", chosen.threads]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)

    async def serve():
        await ready(port, process)
        return await Replay(chosen, port, programs, rate).run()
    try:
        return asyncio.run(serve())
    finally:
        process.terminate()
        process.wait()


# ---- the appliance ------------------------------------------------------------------------------

def our_run(chosen, path, programs, rate):
    blocks = chosen.slots * ((chosen.context + BLOCK_TOKENS - 1) // BLOCK_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        with appliance(Path(folder), f"model.path={path}", f"engine.threads={chosen.threads}",
                       f"sched.batch={chosen.slots}", f"kv.device_blocks={blocks}",
                       "kv.host_ratio=0", "kv.sharing=domain", "limits.calls=4096",
                       "limits.calls_per_connection=4096", "limits.calls_per_program=0",
                       "limits.programs=4096", f"limits.context_tokens={chosen.context}") as to:
            subprocess.run([BUILD / "agx", "--to", to, "replay", chosen.trace, "--rate", str(rate),
                            "--programs", str(len(programs)), "--token-scale",
                            str(chosen.token_scale), "--gap-scale", str(chosen.gap_scale),
                            "--json", report], check=True, stdout=subprocess.DEVNULL)
        said = json.loads(report.read_text(encoding="utf-8"))
    return said["token_latency_ms"]["mean"], said["programs_per_s"]


# ---- the comparison -----------------------------------------------------------------------------

def sustained(points, latency_ms):
    """The largest rate of served programs with that latency, on the line through the points."""
    best = None
    for (low_ms, low), (high_ms, high) in zip(points, points[1:]):
        if low_ms <= latency_ms < high_ms:
            best = low + (high - low) * (latency_ms - low_ms) / (high_ms - low_ms)
    return points[-1][1] if points[-1][0] <= latency_ms else best


def middle(runs):
    return tuple(statistics.median(column) for column in zip(*runs))


def numbers(text):
    return [float(word) for word in text.split(",") if word]


def alone(chosen, path, programs, rate):
    point = middle([our_run(chosen, path, programs, rate) for _ in range(chosen.runs)])
    print(f"| {rate:g} | {point[0]:.2f}, {point[1]:.2f}/s | not asked | |", flush=True)
    return point


def compare(chosen, peer, path, programs):
    mine, theirs = [], []
    for rate in numbers(chosen.rates):
        pairs = [(our_run(chosen, path, programs, rate),
                  peer_run(chosen, peer, path, programs, rate)) for _ in range(chosen.runs)]
        mine.append(middle([ours for ours, _ in pairs]))
        theirs.append(middle([other for _, other in pairs]))
        ratios = sorted(other[0] / ours[0] for ours, other in pairs)
        print(f"| {rate:g} | {mine[-1][0]:.2f}, {mine[-1][1]:.2f}/s "
              f"| {theirs[-1][0]:.2f}, {theirs[-1][1]:.2f}/s | {statistics.median(ratios):.2f} "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)
    mine += [alone(chosen, path, programs, rate) for rate in numbers(chosen.rates_alone)]
    for latency_ms in (theirs[0][0] * 2, theirs[-1][0]):
        rates = sustained(mine, latency_ms), sustained(theirs, latency_ms)
        said = [f"{rate:.2f}/s" if rate else "none of these rates" for rate in rates]
        print(f"\nat {latency_ms:.2f} ms for each token: agentix {said[0]}, {peer.name} {said[1]}")


def main():
    chosen = arguments()
    programs = read_trace(chosen.trace, chosen.programs)
    if not chosen.peer_bin:
        print("no peer is named (--peer-bin): not measured")
    for peer in chosen.peer_bin:
        for shape in chosen.shapes.split(","):
            for kind in chosen.types.split(","):
                print(f"\n{chosen.trace.name}, {len(programs)} programs, {shape} {kind}, "
                      f"{chosen.threads} threads, {chosen.slots} slots\n\n"
                      f"| programs/s offered | agentix, ms a token | {peer.name} "
                      f"| latency of {peer.name} over agentix's |\n|---|---|---|---|")
                try:
                    compare(chosen, peer, model(shape, kind), programs)
                except NotMeasured as reason:
                    print(f"not measured: {reason}", flush=True)


main()
