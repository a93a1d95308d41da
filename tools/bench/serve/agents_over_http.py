#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Agents over HTTP, at once: agentix behind its front door, and llama-server.

    tools/bench/serve/agents_over_http.py --peer-bin DIR [--agents 32] [--slots 8] [--runs 3]

Three quarters of the agents are short, two or three calls of 16 tokens; the others are long, eight
calls of 40. Each call's prompt is all that was said before, and a little more; the next call goes
out when the answer is there, to POST /v1/completions. All begin at once. Both servers have the same
model, threads, slots and KV, and get the same bytes but for one header that names the program. The
contestants run in turns: seconds from an agent's begin to its last answer, means over the short
and the long ones, and until all are done. Medians of the runs. Without a peer's llama-server it
says "not measured"."""
import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = map(str, Path(__file__).resolve().parents[1:3])
from peers import NotMeasured, add_arguments, model      # noqa: E402
from appliance import BUILD, appliance, free_port       # noqa: E402

CONTEXT = 1024


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, "15m", "q8_0")
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


# ---- servers ------------------------------------------------------------------------------------

async def post(port, body, header=""):
    """The JSON of an answer, or None while there is none."""
    data = json.dumps(body).encode()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n")
    writer.write(head.encode() + data)
    head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")):
        raise NotMeasured(f"refused: {content[:200].decode(errors='replace')}")
    return json.loads(content) if head.startswith(b"HTTP/1.1 200") else None


async def wait_ready(port, process):
    while await post(port, {"prompt": "a", "max_tokens": 1}) is None:
        if process.poll() is not None:
            raise NotMeasured(f"the server ended with {process.returncode}")
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def llama_server(chosen, peer, path):
    port = free_port()
    words = [peer.tool("llama-server"), "-m", path, "--host", "127.0.0.1", "--port", port,
             "-np", chosen.slots, "-c", chosen.slots * CONTEXT, "-t", chosen.threads,
             "-tb", chosen.threads]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        asyncio.run(wait_ready(port, process))
        yield port
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def door(chosen, path, *settings):
    blocks = chosen.slots * CONTEXT // 16
    own = [f"model.path={path}", f"engine.threads={chosen.threads}", f"sched.batch={chosen.slots}",
           f"limits.context_tokens={CONTEXT}", "kv.block_tokens=16", f"kv.device_blocks={blocks}",
           *settings]
    with tempfile.TemporaryDirectory() as directory, appliance(Path(directory), *own) as to:
        words = ["--set", f"net.unix={to.removeprefix('unix:')}", "--set",
                 "door.listen=127.0.0.1:0", "--set", f"model.path={path}"]
        process = subprocess.Popen([BUILD / "agentix-door", *words], stderr=subprocess.PIPE,
                                   text=True)
        try:
            port = int(process.stderr.readline().split()[-1])
            asyncio.run(wait_ready(port, process))
            yield port
        finally:
            process.terminate()
            process.wait()


# ---- agents -------------------------------------------------------------------------------------

def is_long(number):
    return number % 4 == 0


async def agent(port, number):
    """Seconds."""
    calls, tokens = (8, 40) if is_long(number) else (2 + number % 2, 16)
    header = f"X-Agentix-Program: agent-{number}\r\n"
    prompt, begun = f"You are agent {number}, and you have work to do. ", time.monotonic()
    for turn in range(calls):
        said = await post(port, {"prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                 "ignore_eos": True}, header)
        if said is None:
            raise NotMeasured("a call was refused")
        prompt += said["choices"][0]["text"] + f" Turn {turn}. "
    return time.monotonic() - begun


async def run(port, agents):
    begun = time.monotonic()
    seconds = await asyncio.gather(*(agent(port, number) for number in range(agents)))
    groups = [[s for i, s in enumerate(seconds) if is_long(i) == kind] for kind in (False, True)]
    return [*map(statistics.mean, groups), time.monotonic() - begun]


def main():
    chosen = arguments()
    path = model(chosen.shapes, chosen.types)
    contestants = {"agentix": lambda: door(chosen, path),
                   "agentix, fcfs": lambda: door(chosen, path, "sched.policy=fcfs")}
    for peer in chosen.peer_bin:
        contestants[f"llama-server ({peer.name})"] = lambda peer=peer: llama_server(chosen, peer,
                                                                                    path)
    rows = {name: [] for name in contestants}
    for _ in range(chosen.runs):
        for name, serve in contestants.items():
            try:
                with serve() as port:
                    rows[name].append(asyncio.run(run(port, chosen.agents)))
            except NotMeasured as why:
                print(f"{name}: not measured: {why}")
    print(f"{chosen.agents} agents, {chosen.slots} slots, {chosen.threads} threads, {path.name}:")
    for name, runs in rows.items():
        if runs:
            short, long, everything = map(statistics.median, zip(*runs))
            print(f"{name:26} short {short:6.2f} s, long {long:6.2f} s, all {everything:6.2f} s")


if __name__ == "__main__":
    main()
