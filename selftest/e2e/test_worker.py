# SPDX-License-Identifier: MIT
"""The engine's worker fails in every way: it is killed, hangs, or is wrong. Calls get the same
tokens, or health says that there is no engine any more. Module serve kills it under load."""
import contextlib
import itertools
import os
import re
import shutil
import signal
import tempfile
import time

from appliance import NOISE, RANDOM_MODEL, Appliance, stop, wait_for
from flow_frames import INPUT, LLM, Flows, end, node, row
from protocol import DEADLINE, FAILED, FLOW_CLOSE, FLOW_DONE, VALUE, Client
from skip import Skip

DEVICE_FAILED = 65
PROMPT = [5, 6, 7, 8]


def start_calls(c, count, max_tokens=300):
    for call_id in range(1, count + 1):
        c.start(call_id, PROMPT + [call_id], max_tokens=max_tokens)
    while not c.calls[1].tokens:
        c.step()


def undisturbed(count):
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        start_calls(c, count)
        return [c.finish(call_id).check().tokens for call_id in range(1, count + 1)]


def open_of(pid, name, mode):
    """Opens a file of /proc/PID, or Skip: not every user may read those of the appliance."""
    try:
        return open("/proc/%d/%s" % (pid, name), mode, buffering=0 if "b" in mode else -1)
    except PermissionError as error:
        raise Skip("needs root, or a kernel that lets a user trace: %s" % error)


def test_a_worker_that_hangs_under_load_costs_time_only():
    alone = undisturbed(8)
    with Appliance(NOISE, "engine.hang=2s", "engine.failures=0") as a, Client(a.tcp) as c:
        start_calls(c, 8)
        worker = a.worker
        stop(worker)
        c.start(9, PROMPT + [1], max_tokens=300)            # open, whatever happened to the others
        assert [c.finish(call_id).check().tokens for call_id in range(1, 10)] == alone + alone[:1]
        assert a.worker != worker
        a.wait_said("engine worker was hung pid=%d" % worker)
        a.wait_ready()
        assert a.stats()["engine_restarts"] >= 1


def test_an_idle_worker_that_hangs_is_replaced():
    with Appliance(NOISE, "engine.hang=2s", "engine.failures=0") as a, Client(a.tcp) as c:
        worker = a.worker
        os.kill(worker, signal.SIGSTOP)
        wait_for(lambda: a.children().get("agentix-worker") not in (None, worker), "a new worker")
        c.generate(1, PROMPT).check()


def stand_still(pids, go_on_in_order):
    """As a machine that is suspended for seven seconds."""
    for pid in pids:
        stop(pid)
    time.sleep(7)
    for pid in go_on_in_order:
        os.kill(pid, signal.SIGCONT)


def test_a_machine_that_was_stopped_has_no_hung_worker():
    with Appliance(NOISE, "engine.hang=5s") as a, Client(a.tcp) as c:
        start_calls(c, 4)
        worker = a.worker
        roles = [a.process.pid, a.core, worker]
        stand_still(roles, reversed(roles))
        for call_id in range(1, 5):
            c.finish(call_id).check()
        stand_still(roles, roles)               # idle; and the one that judges goes on first
        c.generate(5, PROMPT).check()
        assert (a.worker, a.core) == (worker, roles[1])
        assert a.stats()["engine_restarts"] == 0


def test_workers_that_die_too_often_are_replaced_later_and_health_says_so():
    with Appliance(NOISE, "engine.failures=2") as a, Client(a.tcp) as c:
        tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
        for restarts in range(1, 5):            # the second one waits for 1 s, the fourth for 4 s
            os.kill(a.worker, signal.SIGKILL)
            a.wait_stats(engine_restarts=restarts)
        wait_for(lambda: a.health().startswith("degraded(engine backs off: died)"), "it says why")
        c.start(2, PROMPT, max_tokens=50)
        c.start(3, PROMPT, max_tokens=900, deadline=1)
        assert c.finish(3).check().done["finish"] == DEADLINE   # nothing waits for the engine
        a.wait_said("engine worker fails often: the next one starts in 4 s")
        assert c.finish(2).check().tokens == tokens
        a.wait_ready()


# ---- shared memory ------------------------------------------------------------------------------

def shared_parts(pid):
    """[first, end, permissions] of the memory that core and worker share, by address."""
    parts = []
    for line in open_of(pid, "maps", "r"):
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (...s) .* /memfd:agentix-shared \(deleted\)",
                         line)
        if match:
            parts.append([int(match.group(1), 16), int(match.group(2), 16), match.group(3)])
    return parts


def poke(pid, at, data):
    with open_of(pid, "mem", "r+b") as memory:
        memory.seek(at)
        memory.write(data)


def test_a_worker_can_write_only_what_is_its_own():
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        c.generate(1, PROMPT).check()
        assert [part[2] for part in shared_parts(a.core)] == ["rw-s"]
        # Control page: of keeper and core, then the worker's. Step: inputs, then outputs.
        assert [part[2] for part in shared_parts(a.worker)] == ["r--s", "rw-s", "r--s", "rw-s"]


def test_overwritten_results_cost_workers_and_not_the_core():
    alone = undisturbed(8)
    with Appliance(NOISE, "engine.failures=0", "engine.canary=0") as a, Client(a.tcp) as c:
        first, end, _ = shared_parts(a.worker)[3]
        core, call_ids = a.core, itertools.count(1)

        def scribbled_on_eight_calls():
            mine = [next(call_ids) for _ in range(8)]
            for i, call_id in enumerate(mine, 1):
                c.start(call_id, PROMPT + [i], max_tokens=300)
            while a.stats()["engine_restarts"] < 10 and a.stats()["calls_open"] > 0:
                poke(core, first, b"\xff" * (end - first))
            for call_id, tokens in zip(mine, alone):
                outcome = c.finish(call_id).check()
                assert outcome.done["finish"] == FAILED or outcome.tokens == tokens
            return a.stats()["engine_restarts"] > 0
        wait_for(scribbled_on_eight_calls, "a scribble is seen")
        assert a.core == core
        assert c.generate(next(call_ids), PROMPT + [1], max_tokens=300).check().tokens == alone[0]


# ---- silent corruption --------------------------------------------------------------------------

def largest_of(pid, permissions):
    """First address and size of the largest anonymous part with these permissions. An OSError says
    that the process has ended."""
    parts = []
    for line in open_of(pid, "maps", "r"):
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) %s 00000000 00:00 0\s*$" % permissions, line)
        if match:
            first, end = (int(number, 16) for number in match.groups())
            parts.append((end - first, first))
    if not parts:
        raise ProcessLookupError("process %d has no memory" % pid)
    size, first = max(parts)
    return first, size


def flip_weight(pid):
    """Flips one bit of one weight in the middle of the layers."""
    first, size = largest_of(pid, "r--p")       # the packed weights
    at = first + size // 2 // 4 * 4 + 2
    with open_of(pid, "mem", "rb") as memory:
        memory.seek(at)
        byte = memory.read(1)[0]
    poke(pid, at, bytes([byte ^ 0x40]))


def test_a_flipped_bit_in_the_worker_costs_the_worker():
    with Appliance(NOISE, "engine.canary=1s") as a, Client(a.tcp) as c:
        before = c.generate(1, PROMPT, max_tokens=50).check().tokens
        wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
        worker = a.worker
        flip_weight(worker)
        wait_for(lambda: a.stats()["engine_restarts"] == 1, "the canary sees it")
        a.wait_said("engine worker was wrong pid=%d" % worker)
        assert c.generate(2, PROMPT, max_tokens=50).check().tokens == before
        a.wait_ready()
        assert a.stats()["engine_wrong"] == 1


def flow_tokens(a, number):
    """What a workflow of one greedy call answers; another one may have called before."""
    with Flows(a.tcp) as c:
        c.open([node(INPUT), node(LLM, (0,), max_tokens=40)], [1], flow_id=number)
        c.send(row(1, b"%d" % number, flow_id=number) + end(FLOW_CLOSE, number))
        _, _, rest = c.until(VALUE)
        c.until(FLOW_DONE)
        return rest


def test_what_a_wrong_worker_has_said_is_no_answer_to_another_workflow():
    with Appliance(NOISE) as a:
        right = [flow_tokens(a, number) for number in range(20)]
    with Appliance(NOISE, "engine.canary=1s", "engine.failures=0") as a:
        wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
        for number, expected in enumerate(right):
            a.wait_ready()
            worker = a.worker
            flip_weight(worker)
            said = flow_tokens(a, number)
            a.wait_said("engine worker was wrong pid=%d" % worker)
            if said != expected:            # else the canary was quicker
                break
        assert said != expected
        assert flow_tokens(a, number) == expected


def test_a_flipped_bit_in_the_inherited_weights_ends_the_engine():
    with Appliance(NOISE, "engine.canary=1s", "engine.scrub=0") as a, Client(a.tcp) as c:
        wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
        flip_weight(a.process.pid)      # first: a successor inherits what the keeper has then
        flip_weight(a.worker)
        wait_for(lambda: a.health().startswith("failed(canary)"), "it is found twice")
        assert c.generate(1, PROMPT).error["status"] == DEVICE_FAILED
        assert a.stats()["engine_restarts"] == 1


def test_weights_that_are_damaged_are_read_again():
    with Appliance(NOISE, "engine.canary=0", "engine.failures=0") as a, Client(a.tcp) as c:
        before = c.generate(1, PROMPT, max_tokens=50).check().tokens
        for damages in range(1, 4):
            worker = a.worker
            flip_weight(a.process.pid)
            flip_weight(worker)         # as one page of memory, which they share
            wait_for(lambda: a.said("engine worker had damaged weights pid=%d" % worker),
                     "a slice is found")
            wait_for(lambda: a.said("weights are read again digest=") == damages, "they are read")
            a.wait_ready()
            assert c.generate(1 + damages, PROMPT, max_tokens=50).check().tokens == before
            assert a.stats()["weights_damaged"] == a.stats()["engine_restarts"] == damages
        assert " weights_damaged" in a.ask(b"events\n")


def test_workers_of_damaged_weights_are_replaced_together_and_calls_go_on():
    alone = undisturbed(4)
    with Appliance(NOISE, "engine.workers=2", "engine.canary=0", "engine.failures=0") as a, \
            Client(a.tcp) as c:
        start_calls(c, 4)
        flip_weight(a.process.pid)      # the workers' own pages stay right: tokens are, too
        wait_for(lambda: a.said("weights are read again digest="), "they are read")
        assert [c.finish(call_id).check().tokens for call_id in range(1, 5)] == alone
        assert a.stats()["engine_restarts"] == 2


def test_a_worker_that_was_wrong_has_all_weights_looked_at_first():
    with Appliance(NOISE, "engine.canary=1s", "engine.scrub=4096") as a, Client(a.tcp) as c:
        before = c.generate(1, PROMPT, max_tokens=50).check().tokens
        wait_for(lambda: a.stats()["canaries"] > 0, "the canary is known")
        flip_weight(a.process.pid)      # its slice would come in minutes
        flip_weight(a.worker)
        wait_for(lambda: a.said("weights are read again digest="), "they are read")
        a.wait_ready()
        assert c.generate(2, PROMPT, max_tokens=50).check().tokens == before


def test_weights_that_cannot_be_read_again_end_the_engine():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.gguf")
        shutil.copy(RANDOM_MODEL, path)
        with Appliance("model.path=" + path, "engine.canary=0") as a, Client(a.tcp) as c:
            c.generate(1, PROMPT).check()
            with open(path, "r+b") as model:
                model.seek(-64, os.SEEK_END)
                model.write(bytes(64))
            flip_weight(a.process.pid)
            wait_for(lambda: a.health().startswith("failed(weights damaged)"), "it is said")
            assert a.said("weights cannot be read again: they are not those of the boot")
            assert c.generate(2, PROMPT).error["status"] == DEVICE_FAILED


def test_without_a_canary_a_flipped_bit_goes_unnoticed():
    with Appliance(NOISE, "engine.canary=0", "engine.scrub=0") as a, Client(a.tcp) as c:
        c.generate(1, PROMPT, max_tokens=50).check()
        assert a.stats()["canaries"] == 0 and "canary_ms=never" in a.health()


def test_a_step_that_is_computed_twice_gives_the_same_tokens():
    alone = undisturbed(8)
    with Appliance(NOISE, "engine.doubt=1", "engine.threads=2") as a, Client(a.tcp) as c:
        start_calls(c, 8)
        assert [c.finish(call_id).check().tokens for call_id in range(1, 9)] == alone
        stats = a.stats()
        assert stats["steps_doubted"] == stats["steps"] > 0
        assert stats["engine_inconsistent"] == stats["engine_restarts"] == 0


def flip_kv(pid):
    """Flips the lowest bit of each number in a part of the KV, which changes each one little."""
    first, _ = largest_of(pid, "rw-p")          # the engine's memory: its state, then its KV
    at, size = first + (64 << 10), 1 << 20
    with open_of(pid, "mem", "rb") as memory:
        memory.seek(at)
        data = int.from_bytes(memory.read(size), "little")
    poke(pid, at, (data ^ int.from_bytes(b"\1\0" * (size // 2), "little"))
         .to_bytes(size, "little"))


def test_a_step_that_comes_out_in_two_ways_costs_the_worker():
    with Appliance(NOISE, "engine.doubt=1", "engine.canary=0", "engine.failures=0") as a, \
            Client(a.tcp) as c:
        call_ids = itertools.count(1)
        worker = a.worker

        def flipped_while_a_call_runs():
            call_id = next(call_ids)
            c.start(call_id, PROMPT, max_tokens=300)
            while a.stats()["calls_open"] > 0 and a.stats()["engine_inconsistent"] == 0:
                with contextlib.suppress(OSError):      # it may have been found, and ended, since
                    flip_kv(worker)
            c.finish(call_id).check()
            return a.stats()["engine_inconsistent"] > 0
        wait_for(flipped_while_a_call_runs, "two passes differ")
        wait_for(lambda: a.said("engine worker was inconsistent pid=%d" % worker), "it is named")
        a.wait_ready()
        assert a.stats()["engine_wrong"] == 0
        c.generate(next(call_ids), PROMPT).check()
