#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What: the policies of the Agentix paper in a second, independent simulator.

It was written from the paper (sections 4.2, 5, 6), the trace format and docs/lab.md, and shares no
code with the appliance. It is meant to be believed by reading: no speed, no faults, no protocol.
tools/lab/reference/compare_reference.py runs the lab beside it.

Choices that the paper leaves open follow docs/scheduling.md: service is the whole duration of each
step that a call was in; recompute lengthens a quantum; a promoted job has one quantum of the queue
that it came from; live service. Levels are not learnt. Memory is ideal (reference_kv.py).
"""
import argparse
import heapq
import json
from collections import OrderedDict, defaultdict, namedtuple

from reference_kv import Kv
from reference_trace import Call, Program, Tokens, arrivals, read_trace

GB, TERA = 1e9, 1e12

# The machines as docs/lab.md has them: seconds, bytes, operations. once: a block that several rows
# have is read once. streams: copies in and out are under way at once.
Machine = namedtuple("Machine", "unit_s host_s launch_s weights kv_token bandwidth token_flops "
                     "pair_flops flops overlap once streams copy_bandwidth transfer_s batch "
                     "prefill")
MACHINES = {
    "unit": Machine(1, 0, 0, 0, 0, 1, 0, 0, 1, 1, False, True, 1, 0,
                    batch=2, prefill=65536),
    "a100-llama-3.1-8b": Machine(
        0, 0.1e-3, 1e-3, 2 * 8.03e9, 2 * 32 * 8 * 128 * 2, 0.80 * 2039 * GB, 2 * 8.03e9,
        4 * 32 * 32 * 128, 0.60 * 312 * TERA, 1, False, True, 25 * GB, 1e-3,
        batch=256, prefill=2048),
    "cpu": Machine(
        0, 20e-6, 0, 440e6, 2 * 12 * 768 * 4, 31.3 * GB, 2 * 110e6,
        4 * 12 * 768, 403 * GB, 0.34, True, False, 10 * GB, 20e-6,
        batch=32, prefill=256),
}


def whole_us(seconds):
    """All times are microseconds: else a call and a step's end could not meet."""
    return round(seconds, 6)


def round_s(m, work, shared):
    """Time of one forward pass. work: a row's (tokens fed, positions read, pairs of a fed token and
    a position that it sees), for each row; shared: positions that work has too often."""
    tokens, positions, pairs = map(sum, zip(*work))
    read_s = (m.weights + (positions - shared) * m.kv_token) / m.bandwidth
    compute_s = (tokens * m.token_flops + pairs * m.pair_flops) / m.flops
    return m.launch_s + max(read_s, compute_s) + (1 - m.overlap) * min(read_s, compute_s)


def shared_positions(m, rows, block):
    """Positions of whole blocks that several rows have, but for the first of these rows."""
    whole = [name for row in rows for name in row.whole(block)] if m.once else []
    return (len(whole) - len(set(whole))) * block


def copies_s(m, kv):
    """Time of a step's copies: a bulk transfer between the tiers in each direction, and blocks that
    are copied within the device. What comes in waits for what goes out of the same block."""
    def one_way(blocks):
        return blocks * kv.block * m.kv_token / m.copy_bandwidth + m.transfer_s if blocks else 0
    within = kv.blocks_copied * 2 * kv.block * m.kv_token / m.bandwidth
    ways = one_way(kv.blocks_in), one_way(kv.blocks_out), within
    return 0 if m.unit_s else max(ways) if m.streams and not kv.chained else sum(ways)


# ---- Order: the queues of section 4.2.2 --------------------------------------------------------

class Job:
    """What stands in a queue: a call; with live service all open calls of a program."""
    def __init__(self, program, now):
        self.program, self.calls = program, []
        self.level = self.quantum = self.place = 0
        self.wait = self.service = 0.0          # W_c and T_c: since the last promotion
        self.since, self.promoted, self.home = now, False, None


def ticket(call):
    """Where a call stands in its queue."""
    return call.job.place, call.order


class Queues:
    def __init__(self, options):
        self.o, self.policy = options, options.policy
        self.by_program = self.policy in ("plas", "atlas")
        self.live = self.by_program and options.service == "live"
        count = 1 if self.policy == "fcfs" else options.queues
        self.quanta = [options.quantum * options.growth ** i for i in range(count)]
        self.queues = [OrderedDict() for _ in range(count)]     # jobs
        self.ran = [{} for _ in range(count)]                   # calls that have had blocks
        self.last = self.first = self.arrived = 0
        self.turns, self.ahead = {}, 0.0        # promoted jobs; service beyond a row for each
        self.turns_max = max(1, options.batch // 16)

    def level_of(self, service):
        """i with low_i <= service < low_(i+1); ranges are as wide as quanta."""
        level, low = 0, self.quanta[0]
        while level + 1 < len(self.quanta) and service >= low:
            level += 1
            low += self.quanta[level]
        return level

    def append(self, job, level, head=False):
        self.last, self.first = self.last + 1, self.first - 1
        job.place = self.first if head else self.last
        job.level, job.quantum = level, self.quanta[level]
        self.queues[level][job] = None
        self.queues[level].move_to_end(job, last=not head)
        self.ran[level].update((call, None) for call in job.calls if call.begun)

    def remove(self, job):
        del self.queues[job.level][job]
        for call in job.calls:
            self.ran[job.level].pop(call, None)

    def calls(self, level):
        return (call for job in self.queues[level] for call in job.calls)

    def ran_in_order(self, level):
        return sorted(self.ran[level], key=ticket)

    def begin(self, call):
        call.begun = True
        self.ran[call.job.level][call] = None

    def arrive(self, call, now):
        program = call.program
        call.priority, self.arrived = program.service, self.arrived + 1
        call.order = self.arrived
        job = program.job if self.live and program.job else Job(program, now)
        if not job.calls:
            self.append(job, self.level_of(program.service) if self.by_program else 0)
        job.calls.append(call)
        call.job = program.job = job

    def credit(self, call, seconds):
        """PLAS: the sum of all calls. ATLAS: the longest path."""
        program, path = call.program, call.priority + call.service
        program.service = max(program.service, path) if self.policy == "atlas" \
            else program.service + seconds

    def charge(self, call, seconds, again, now):
        """A call was in a step; again: it computed what it had lost, which lengthens its turn."""
        job, begun = call.job, now - seconds
        call.service, job.service = call.service + seconds, job.service + seconds
        self.ahead += seconds if job.home and job.level == 0 else 0
        job.quantum = job.quantum + seconds if again else max(0, job.quantum - seconds)
        call.wait, call.since = call.wait + max(0, begun - call.since), now
        job.wait, job.since = job.wait + max(0, begun - job.since), now
        if self.live:
            self.credit(call, seconds)

    def settle(self, job):
        """Lines 20 to 23: a job that has used up its quantum goes down, if its level is above
        that of its program's service; after a promotion, back to where it was."""
        lowest = self.level_of(job.program.service) if self.live else len(self.quanta) - 1
        if job.calls and job.quantum <= 0 and (job.home or job.level < lowest):
            self.turns.pop(job, None)
            self.remove(job)
            self.append(job, job.home or job.level + 1, self.o.demoted_to_head)
            job.home = None

    def end(self, call):
        """Algorithm 1, lines 1 to 7 and 16 to 19."""
        job, program = call.job, call.program
        self.ran[job.level].pop(call, None)
        job.calls.remove(call)
        program.wait += call.wait
        if not job.calls:
            self.remove(job)
            self.turns.pop(job, None)
            program.job = None
        if not self.live:
            self.credit(call, call.service)

    def promote(self, job, now):
        """Lines 24 to 30. The program's past counts for the first promotion of a job."""
        wait, service, past = job.wait + now - job.since, job.service, job.program
        starves = self.o.wait_max and wait >= self.o.wait_max
        if self.by_program and not job.promoted:
            wait, service = wait + past.wait, past.service + (0 if self.live else service)
        if starves or (self.o.beta and service > 0 and wait >= self.o.beta * service):
            home = job.level
            self.remove(job)
            self.append(job, 0)
            job.quantum, job.home, job.promoted = self.quanta[home], home, True
            job.wait, job.service, job.since = 0.0, 0.0, now
            self.turns[job] = None

    def step_ended(self, seconds):
        self.ahead = max(0.0, whole_us(self.ahead - seconds * self.turns_max))

    def place_turns(self):
        """Turns that have had more than a row each stand at the heads of their own levels."""
        for job in self.turns:
            level, quantum = job.home if self.ahead else 0, job.quantum
            if job.level != level:
                self.remove(job)
                self.append(job, level, level > 0)
                job.quantum = quantum

    def promote_all(self, now):
        """As many jobs have a turn at once as the batch has 16 rows."""
        self.place_turns()
        for job in [job for queue in self.queues[1:] for job in queue]:
            if not self.ahead and len(self.turns) < self.turns_max:
                self.promote(job, now)


# ---- The engine: plan, step, settle ------------------------------------------------------------

class Row:
    """A call in a step: feeds tokens in its first round, then one in each round."""
    def __init__(self, call, feed, rounds, decodes):
        self.call, self.feed, self.rounds, self.decodes = call, feed, rounds, decodes
        self.start = 0                          # a standby comes in later

    def work(self, after):
        before = self.call.computed
        if after == self.start:
            return self.feed, before + self.feed, self.feed * (before + (self.feed + 1) / 2)
        end = before + self.feed + after - self.start
        return 1, end, end

    def whole(self, block):
        return self.call.names[:(self.call.computed + self.feed) // block]


class Simulator:
    def __init__(self, options, programs):
        self.o, self.m = options, MACHINES[options.cost]
        self.kv = Kv(options.blocks, int(options.blocks * options.host_ratio), options.block)
        self.q = Queues(options)
        self.tokens, self.now, self.due = Tokens(), 0.0, []
        self.swept, self.spare, self.lowest = 0.0, False, 0
        self.count = defaultdict(float)
        self.programs = []
        for at, calls in programs:
            self.programs.append(Program(len(self.programs), calls))
            for n, (after, gap, _, _) in enumerate(calls):
                if not after:
                    self.send(at + gap, self.programs[-1], n)

    def send(self, at, program, number):
        """What is due at the same moment is sent in the order of programs and of calls."""
        heapq.heappush(self.due, (whole_us(at), program.index, number, program))

    def run(self):
        while True:
            self.intake()
            self.promote()
            rows, standbys = self.plan()
            if rows:
                self.step(rows, standbys)
            elif self.due:
                self.now = max(self.now, self.due[0][0])
            else:
                return

    def intake(self):
        """Calls that are due enter their queues. True: there is a row for one of them, a free one
        or that of a call in a lower queue."""
        of_use = False
        while self.due and self.due[0][0] <= self.now:
            at, _, number, program = heapq.heappop(self.due)
            call = Call(program, number, at, self.tokens)
            program.calls[number] = call
            call.name_blocks(self.kv.block)
            self.kv.want(call, 1)
            self.q.arrive(call, at)
            of_use = of_use or self.spare or call.job.level < self.lowest
        return of_use

    def promote(self):
        if self.now >= self.swept + self.o.quantum / 4:
            self.swept = self.now
            self.q.promote_all(self.now)

    def walk(self):
        """The calls in order; without budget only those that may need none."""
        for level in range(len(self.q.queues)):
            passed = float("-inf"), 0
            for call in self.q.calls(level):
                if not self.budget:
                    break
                passed = ticket(call)
                yield call
            if not self.budget:
                yield from [call for call in self.q.ran_in_order(level) if ticket(call) > passed]

    def plan(self):
        """Lines 32 to 39: rows, and standbys behind them."""
        rows, standbys = [], []
        self.budget, self.full, self.victims = self.o.prefill, False, None
        self.kv.rank = self.kv.rank_waiting(
            call for queue in reversed(self.q.queues) for job in reversed(queue)
            for call in reversed(job.calls))
        self.kv.blocks_in = self.kv.blocks_out = self.kv.blocks_copied = 0
        self.kv.chained = False
        for call in self.walk():
            if len(rows) == self.o.batch or self.full:
                if len(standbys) == self.o.standby or self.o.steps == 1:
                    break
                self.stand_by(call, standbys)
            else:
                row = self.row(call)
                if row:
                    rows.append(row)
        self.spare = len(rows) < self.o.batch and not self.full
        self.lowest = rows[-1].call.job.level if rows else 0
        return rows, standbys

    def row(self, call):
        """What a call would do in this step; None if there is no budget or no room for it."""
        found, have = (0, 0, None), call.computed
        if not call.resident:
            found = self.kv.find(call)
            have = found[0] * self.kv.block + found[1]
        lacks = call.known() - have             # tokens; the last one alone needs no budget
        feed = lacks if lacks == 1 else min(lacks, self.budget)
        decodes = feed == lacks
        if not feed:
            return None
        rounds = min(self.o.steps, call.out - call.made) if decodes else 1
        end = have + feed + rounds - 1
        if not self.fits(call, found, end):
            self.full = True
            return None
        self.budget -= 0 if lacks == 1 else feed
        if not call.resident:
            self.count["hit"] += 0 if call.begun else have
            self.count["prompt"] += 0 if call.begun else call.prompt_tokens
        self.kv.take(call, found, end)
        call.computed = have
        if not call.begun:
            self.q.begin(call)
        return Row(call, feed, rounds, decodes)

    def fits(self, call, found, end):
        """Later calls give up their blocks, the last first, until there is room."""
        while self.kv.lacks(call, found, end) > 0:
            if self.victims is None:
                self.victims = [c for level in range(len(self.q.ran))
                                for c in self.q.ran_in_order(level) if c.resident]
            if not self.victims or (self.victims[-1].job.level, ticket(self.victims[-1])) \
                    <= (call.job.level, ticket(call)):
                return False
            victim = self.victims.pop()
            self.kv.release(victim)
            self.kv.want(victim, 1)
            self.count["preemptions"] += 1
        return True

    def stand_by(self, call, standbys):
        """A resident call that only decodes; it takes nothing that another call waits for."""
        if call.resident and call.known() - call.computed == 1:
            rounds = min(self.o.steps, call.out - call.made)
            end = call.computed + rounds
            if self.kv.lacks(call, None, end) + len(self.kv.kept) <= 0:
                self.kv.take(call, None, end)
                standbys.append(Row(call, 1, rounds, True))

    def step(self, rows, standbys):
        begun = self.now
        self.count["swap_in_blocks"] += self.kv.blocks_in
        self.count["swap_out_blocks"] += self.kv.blocks_out
        self.now = whole_us(self.now + self.o.host + copies_s(self.m, self.kv))
        rows, rounds = self.rounds(rows, standbys)
        self.settle(rows, rounds, begun)

    def rounds(self, rows, standbys):
        """Runs a step. Returns the rows that were in it, and how many rounds it had."""
        cut, done, begun, seconds = self.o.cut, 0, self.now, 0
        limit = 1 if cut and self.spare and not self.budget else self.o.steps
        ran, live = list(rows), list(rows)
        while live and done < limit:
            if self.m.unit_s:
                seconds += self.m.unit_s if any(row.decodes for row in ran) else 0
            else:
                seconds += round_s(self.m, [row.work(done) for row in live],
                                   shared_positions(self.m, live, self.kv.block))
            done, self.now = done + 1, whole_us(begun + seconds)
            left = [row for row in live if row.start + row.rounds > done]
            ended = sum(row.decodes for row in live) - sum(row.decodes for row in left)
            while standbys and len(left) < len(rows) and done < limit:
                row = standbys.pop(0)
                row.start, ended = done, ended - 1
                left.append(row)
                ran.append(row)
            live = left
            if self.intake() + (ended > 0) and cut:
                limit = done
        return [row for row in ran if row.start < done], done

    def settle(self, rows, rounds, begun):
        """Lines 15 to 31: each call of the step is charged; it ends, or goes down."""
        self.count["steps"] += 1
        for row in rows:
            call, got = row.call, min(row.rounds, rounds - row.start)
            seconds = (self.now - begun) * (got / rounds if row.start else 1)
            again = max(0, min(call.high, call.computed + row.feed) - call.computed)
            self.count["recomputed_tokens"] += again
            self.count["tokens_computed"] += row.feed + got - 1
            call.computed += row.feed + got - 1
            call.high = max(call.high, call.computed)
            call.made += got if row.decodes else 0
            self.kv.fill(call)
            self.q.charge(call, seconds, again, self.now)
            if call.made == call.out:
                self.end(call)
        self.q.step_ended(self.now - begun)
        for row in reversed(rows) if self.o.demoted_to_head else rows:
            self.q.settle(row.call.job)

    def end(self, call):
        program = call.program
        self.q.end(call)
        self.count["wait_s_total"] += call.wait
        self.kv.release(call)
        call.ids = call.names = call.need = None
        program.ended[call.number] = self.now
        chains = [program.chain[n] for n in program.texts[call.number][0]]
        program.chain[call.number] = max(chains, default=0) + self.now - call.due
        for number, at in program.due_after(call.number):
            self.send(at, program, number)

    def figures(self):
        values = sorted(program.figures() for program in self.programs)
        c = self.count
        result = {"makespan_s": self.now, "prefix_hit_ratio": c["hit"] / c["prompt"],
                  "token_latency_s_mean": sum(values) / len(values)}
        for p in (50, 95, 99):
            result[f"token_latency_s_p{p}"] = values[-(-len(values) * p // 100) - 1]
        return result | {key: c[key] for key in (
            "wait_s_total", "steps", "preemptions", "tokens_computed", "recomputed_tokens",
            "swap_in_blocks", "swap_out_blocks")}


def options():
    parser = argparse.ArgumentParser(description="The policies of the paper, simulated anew.")
    parser.add_argument("--trace", required=True)
    parser.add_argument("--policy", choices="fcfs mlfq plas atlas".split(), default="atlas")
    parser.add_argument("--service", choices=("snapshot", "live"), default="snapshot")
    parser.add_argument("--cost", choices=MACHINES, default="a100-llama-3.1-8b")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--cut", action="store_true", help="steps end early when that is of use")
    parser.add_argument("--demoted-to-head", action="store_true")
    for name, kind, value, text in (
            ("rate", float, 0, "programs a second; 0: the trace's"),
            ("programs", int, 0, "0: as many as the trace has"), ("seed", int, 0, "0 only"),
            ("batch", int, None, "rows of a step"), ("prefill", int, None, "tokens of a step"),
            ("host", float, None, "seconds between steps"),
            ("quantum", float, 1, "of the first queue, seconds"), ("queues", int, 8, ""),
            ("growth", int, 2, "a queue's quantum in quanta of the one above"),
            ("beta", float, 32, "0: never"), ("wait-max", float, 300, "0: never"),
            ("steps", int, 8, "decoding rounds of a plan"), ("standby", int, 8, ""),
            ("block", int, 16, "tokens of a KV block"), ("blocks", int, 26000, "on the device"),
            ("host-ratio", float, 22, "blocks on the host for each"), ("json", str, None, "")):
        parser.add_argument("--" + name, type=kind, default=value, help=text)
    o = parser.parse_args()
    m = MACHINES[o.cost]
    o.batch, o.prefill = o.batch or m.batch, o.prefill or m.prefill
    o.host = m.host_s if o.host is None else o.host
    return o


def main():
    o = options()
    trace = read_trace(o.trace)
    simulator = Simulator(o, arrivals(trace, o.programs, o.rate, o.offline))
    simulator.run()
    text = json.dumps(simulator.figures(), indent=1)
    if o.json:
        with open(o.json, "w", encoding="ascii") as out:
            out.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
