#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What drafts would bring to agents: the table that agentix-lab --speculate takes, from texts.

    tools/bench/drafts/measure.py [--tasks 200] [--seed 1]      the embedded model's agents
    tools/bench/drafts/measure.py --to unix:PATH --model MODEL.gguf -- COMMAND...      yours

A relay stands between the agents and an appliance and notes what each call is told and answers;
COMMAND finds it by AGX_TO. The texts go through the engine's own search (search.c), after what
ended calls of the program had generated when the call was sent (--recall), as sched.recall has it,
and with --sharing domain after what those of its class had (kv.sharing). A program has the class
that it names; one that names none is a class by itself. Nothing is timed, and the appliance need
not make drafts.

Of the embedded model: the tasks of tools/model/eval, each kind a class, and those of `agx demo`.
Needs `make build/bench-drafts`."""
import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2]
sys.path[:0] = map(str, (TOOLS, TOOLS / "sdk/python", TOOLS / "model"))
sys.dont_write_bytecode = True
from agentix import frames, wire                            # noqa: E402
from appliance import BUILD, appliance                      # noqa: E402

DEMO = TOOLS / "agx/agents/demo.tasks"
READ_BYTES = 1 << 16


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recall", type=int, default=512, help="tokens (sched.recall)")
    parser.add_argument("--sharing", choices=("program", "domain"), default="program")
    parser.add_argument("--to", help="of an appliance that runs: unix:PATH")
    parser.add_argument("--model", default=str(TOOLS.parent / "appliance/embedded.gguf"))
    parser.add_argument("command", nargs="*", help="agents, which connect to $AGX_TO")
    chosen = parser.parse_args()
    if bool(chosen.to) != bool(chosen.command):
        parser.error("--to goes with a command")
    return chosen


class Texts:
    """Of the calls that have ended: (class, recalled tokens, flags, prompt, tokens, number of the
    prompt's tokens)."""

    def __init__(self, recall, sharing):
        self.lock, self.recall, self.sharing = threading.Lock(), recall, sharing
        self.classes, self.recalled, self.ended = {}, defaultdict(list), []

    def known_to(self, program):
        """Whose texts its calls recall: the oldest first."""
        shares = self.sharing == "domain" and self.classes.get(program)
        return [self.classes[program], program] if shares else [program]

    def hear(self, kind, payload, calls):
        """A frame of one connection, whose open calls these are."""
        with self.lock:
            if kind == frames.PROGRAM_START:
                got, rest = wire.unpack(kind, payload)
                self.classes[got["program_id"]] = rest.decode()
            elif kind == frames.CALL:
                got, rest = wire.unpack(kind, payload)
                past = [token for whose in self.known_to(got["program_id"])
                        for token in self.recalled[whose]]
                calls[got["call_id"]] = (got, past, prompt_of(got, rest), [])
            elif kind == frames.TOKENS:
                got, rest = wire.unpack(kind, payload)
                _, rest = wire.logprobs(got, rest)
                calls[got["call_id"]][-1].extend(wire.tokens_and_text(got, rest)[0])
            elif kind == frames.DONE:
                got, _ = wire.unpack(kind, payload)
                asked, past, prompt, tokens = calls.pop(got["call_id"])
                program = asked["program_id"]
                for whose in self.known_to(program):
                    said = self.recalled[whose] + tokens
                    self.recalled[whose] = said[max(0, len(said) - self.recall):]
                self.ended.append((self.classes.get(program) or "none", past, asked["flags"],
                                   prompt, tokens, got["prompt_tokens"]))


def prompt_of(got, rest):
    """The last part of a CALL: bytes of text, or of ids."""
    size = got["prompt_count"] * (1 if got["flags"] & frames.TEXT_PROMPT else 4)
    return rest[len(rest) - size:]


class Relay:
    """Listens on a socket, and passes each connection on to another one."""

    def __init__(self, path, to, texts):
        self.to, self.texts = to, texts
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server, calls = socket.socket(socket.AF_UNIX), {}
            server.connect(self.to)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(source, sink, calls),
                                 daemon=True).start()

    def pass_on(self, source, sink, calls):
        """A frame is heard before it goes on: the answer to a call comes after the call."""
        waiting = b""
        while data := source.recv(READ_BYTES):
            waiting += data
            while len(waiting) >= wire.HEADER_BYTES:
                size = wire.HEADER_BYTES + wire.length(waiting)
                if len(waiting) < size:
                    break
                head, payload = waiting[:wire.HEADER_BYTES], waiting[wire.HEADER_BYTES:size]
                self.texts.hear(wire.check(head, payload), payload, calls)
                waiting = waiting[size:]
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def ids_of(model, flags, prompt):
    if not flags & frames.TEXT_PROMPT:
        return list(struct.unpack(f"<{len(prompt) // 4}I", prompt))
    words = ["--bos"] * bool(flags & frames.ADD_BOS) + \
        ["--special"] * bool(flags & frames.PARSE_SPECIAL)
    said = subprocess.run([BUILD / "agx", "tokenize", "--vocab", model, *words, "--file",
                           "/dev/stdin"], input=prompt, stdout=subprocess.PIPE, check=True).stdout
    return list(map(int, said.split()))


def lines_of(texts, model):
    """For search.c."""
    for name, past, flags, prompt, tokens, prompt_tokens in texts.ended:
        ids = ids_of(model, flags, prompt)
        if len(ids) != prompt_tokens:
            sys.exit(f"{model}: a prompt has {len(ids)} tokens in it, {prompt_tokens} in the "
                     "appliance: is it the model that is served?")
        yield " ".join(map(str, (name, len(past) + len(ids), *past, *ids, *tokens)))


def run_embedded(to, tasks, seed):
    """Each kind of task by itself; what they score is no matter."""
    evaluation = SourceFileLoader("evaluation", str(TOOLS / "model/eval")).load_module()
    kinds = defaultdict(list)
    for text in evaluation.task_file(tasks, seed).split("\n\n"):
        kinds[text.split()[1]].append(text)
    files = {name: "\n\n".join(texts) + "\n" for name, texts in sorted(kinds.items())}
    files["demo"] = DEMO.read_text(encoding="utf-8")
    for name, text in files.items():
        subprocess.run([BUILD / "agx", "--to", to, "agent", "--class", name, "-"], input=text,
                       text=True, check=False, stdout=subprocess.DEVNULL)


def main():
    a = arguments()
    texts = Texts(a.recall, a.sharing)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        to = a.to or stack.enter_context(appliance(Path(folder), "engine.threads=1"))
        path = str(Path(folder) / "relay")
        Relay(path, to.removeprefix("unix:"), texts)
        if a.command:
            subprocess.run(a.command, env={**os.environ, "AGX_TO": "unix:" + path}, check=False,
                           stdout=sys.stderr)
        else:
            run_embedded("unix:" + path, a.tasks, a.seed)
    lines = "".join(line + "\n" for line in lines_of(texts, a.model))
    subprocess.run([BUILD / "bench-drafts"], input=lines, text=True, check=True)


if __name__ == "__main__":
    main()
