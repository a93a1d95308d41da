# SPDX-License-Identifier: MIT
"""What: schedules by the cost model: greedy orders, a climb, and the baselines of the paper.

A schedule is of jobs: the operators of a flow, or its calls, one for each row and operator. Only
consecutive jobs share a prefix; a job starts M * out token steps after those that it depends on.
All is multiplied by M.
"""
import random
from dataclasses import dataclass, field

import optimise

CLIMB_MOVES = 2000
RULES = (                           # least first, of idle, prefill, tail; all are integers
    lambda idle, prefill, tail: 30 * idle + 10 * prefill - 3 * tail,
    lambda idle, prefill, tail: 100 * idle + 100 * prefill - 3 * tail,
    lambda idle, prefill, tail: (idle, -tail, prefill),
    lambda idle, prefill, tail: 100 * idle + 10 * prefill - tail,
    lambda idle, prefill, tail: idle + prefill - tail,
    lambda idle, prefill, tail: (idle, prefill, -tail),
)


@dataclass
class Jobs:
    kv_tokens: int
    out: list = field(default_factory=list)
    prompt: list = field(default_factory=list)
    shared: list = field(default_factory=list)      # [before][job]: tokens
    depends: list = field(default_factory=list)
    op: list = field(default_factory=list)          # which operator, and of which row it is
    row: list = field(default_factory=list)

    def __len__(self):
        return len(self.out)

    def use(self, before, job):
        """Token steps of a job, by the one before it; None: it is the first."""
        new = self.prompt[job] - (0 if before is None else self.shared[before][job])
        return self.out[job] * new + self.out[job] * (self.out[job] + 1) // 2

    def earliest(self, job, completion):
        """None while something that it depends on has no completion."""
        if any(d not in completion for d in self.depends[job]):
            return None
        return max((completion[d] + self.kv_tokens * self.out[d] for d in self.depends[job]),
                   default=0)

    def steps(self, order):
        """Token steps of a schedule; None: it breaks a dependency."""
        now, before, completion = 0, None, {}
        for job in order:
            earliest = self.earliest(job, completion)
            if earliest is None:
                return None
            now = max(now, earliest) + self.use(before, job)
            completion[job], before = now, job
        return now


def jobs_of(workflow, kv_tokens, scales=(100,)):
    """One job for each operator and each row; a row scales what its operators give, in percent.
    One row: the operators themselves."""
    jobs, symbols, place = Jobs(kv_tokens), [], {}
    for row, scale in enumerate(scales):
        for i, op in enumerate(workflow.ops):
            place[i, row] = len(jobs)
            jobs.op.append(i)
            jobs.row.append(row)
            jobs.out.append(max(1, op.out * scale // 100))
            jobs.prompt.append(workflow.weight(op.symbols))
            jobs.depends.append([place[d, row] for d in sorted(op.depends)])
            symbols.append([(*s, row) if optimise.is_value(s) else s for s in op.symbols])
    for before in symbols:
        weights = []
        for mine, op in zip(symbols, jobs.op):
            common = optimise.common_prefix(before, mine)
            weights.append(workflow.weight(workflow.ops[op].symbols[:common]))
        jobs.shared.append(weights)
    return jobs


def tails(jobs):
    """Of each job: token steps of the longest chain that begins with it, at best."""
    count = len(jobs)
    readers = [[j for j in range(count) if i in jobs.depends[j]] for i in range(count)]
    tail = {}
    for i in reversed(range(count)):
        least = min([jobs.use(j, i) for j in range(count) if j != i] + [jobs.use(None, i)])
        tail[i] = least + max((jobs.kv_tokens * jobs.out[i] + tail[j] for j in readers[i]),
                              default=0)
    return tail


def dispatch(jobs, key):
    """A list scheduler: the least key(idle, prefill, job, before) of all that may come next."""
    now, before, completion, order = 0, None, {}, []
    while len(order) < len(jobs):
        best = None
        for job in range(len(jobs)):
            earliest = None if job in completion else jobs.earliest(job, completion)
            if earliest is None:
                continue
            prefill = jobs.out[job] * (jobs.prompt[job] -
                                       (0 if before is None else jobs.shared[before][job]))
            found = (key(max(0, earliest - now), prefill, job, before), job, earliest)
            best = found if best is None or found < best else best
        _, job, earliest = best
        now = max(now, earliest) + jobs.use(before, job)
        completion[job], before = now, job
        order.append(job)
    return order


def greedy(jobs):
    tail = tails(jobs)
    return [dispatch(jobs, lambda idle, prefill, job, _, rule=rule: rule(idle, prefill, tail[job]))
            for rule in RULES]


def climb(jobs, order, moves=CLIMB_MOVES):
    """Takes one job out and puts it in elsewhere, while that is of use."""
    best, better = jobs.steps(order), True
    while better:
        better = False
        for a in range(len(order)):
            rest = order[:a] + order[a + 1:]
            for b in range(len(order)):
                tried = rest[:b] + [order[a]] + rest[b:]
                steps = jobs.steps(tried) if b != a and moves > 0 else None
                moves -= steps is not None
                if steps is not None and steps < best:
                    order, best, better = tried, steps, True
                    break
    return order


def auto(workflow, kv_tokens):
    """The order of `workflow.order = auto`: operators."""
    jobs = jobs_of(workflow, kv_tokens)
    found = [optimise.Helium(workflow, kv_tokens).cost.order] + greedy(jobs)
    return climb(jobs, min(found, key=jobs.steps))


def kick(draw, order):
    """Some jobs go elsewhere: a run of them, a few times."""
    for _ in range(draw.randint(1, 3)):
        length = draw.randint(1, max(1, len(order) // 2))
        at = draw.randint(0, len(order) - length)
        run, order = order[at:at + length], order[:at] + order[at + length:]
        at = draw.randint(0, len(order))
        order = order[:at] + run + order[at:]
    return order


def best_known(jobs, starts, kicks, seed=1):
    """Iterated local search from the best of the starts."""
    draw = random.Random(seed)
    best = min((climb(jobs, order) for order in starts), key=jobs.steps)
    for _ in range(kicks):
        tried = kick(draw, best)
        while jobs.steps(tried) is None:
            tried = kick(draw, best)
        best = min(best, climb(jobs, tried, 20000), key=jobs.steps)
    return best


def by_sequences(workflow, order, share_min):
    """op -> (sequence, place, by row): keys of release."""
    keys = {}
    names = {op.name: i for i, op in enumerate(workflow.ops)}
    for sequence, members in enumerate(optimise.sequences(workflow, order, share_min)):
        ops = [workflow.ops[names[m]].symbols for m in members]
        common = min(optimise.common_prefix(ops[0], other) for other in ops)
        by_row = len(ops) > 1 and any(map(optimise.is_value, ops[0][:common]))
        for place, name in enumerate(members):
            keys[names[name]] = (sequence, place, by_row)
    return keys


def release(jobs, keys):
    """Ready calls by (sequence, row, place) or (sequence, place, row); none is ready: the first
    that will be."""
    def key(idle, _prefill, job, _before):
        sequence, place, by_row = keys[jobs.op[job]]
        row = jobs.row[job]
        return idle, sequence, (row, place) if by_row else (place, row)
    return dispatch(jobs, key)


def baseline(jobs, name, seed=1):
    draw = random.Random(seed)
    if name == "querywise":         # one call at a time of one query at a time
        return sorted(range(len(jobs)), key=lambda j: (jobs.row[j], j))
    if name == "opwise":            # all rows of an operator, then the next operator
        return sorted(range(len(jobs)), key=lambda j: (jobs.op[j], jobs.row[j]))
    keys = {"random": lambda idle, _p, _j, _b: (idle, draw.random()),
            "arrival": lambda idle, _p, j, _b: (idle, jobs.row[j], j),
            "lspf": lambda idle, _p, j, b: (idle, 0 if b is None else -jobs.shared[b][j], j)}
    return dispatch(jobs, keys[name])
