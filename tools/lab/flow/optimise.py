# SPDX-License-Identifier: MIT
"""What: prune, merge, templated radix tree, cost, Algorithm 1, inner sequences: the reference.

Written from the paper (section 5) and the specification; meant to be believed by reading. All
costs are multiplied by M, the KV's tokens, so that they are integers.
"""
from dataclasses import dataclass, field


@dataclass
class Op:
    """An LLM node that is left. symbols: of its prompt; ("value", node) weighs the node's est."""
    node: int
    name: str
    out: int
    symbols: list
    depends: set                    # ops, directly or through text and lambda
    columns: list                   # names of inputs, in node order


@dataclass
class Workflow:
    ops: list
    weights: dict                   # of ("value", node)
    given: tuple                    # llm, lambda, inputs, outputs
    pruned: int
    merged: int
    left: int

    def weight(self, symbols):
        return sum(self.weights.get(s, 1) if is_value(s) else 1 for s in symbols)


def is_value(symbol):
    return isinstance(symbol, tuple) and symbol[0] == "value"


def needed(flow):
    todo, seen = list(flow.outputs), set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [p for p in flow.nodes[node].pieces if isinstance(p, int)]
    return seen


def merge(flow, seen):
    """Node -> the first that is equal; operands are merged before those who read them."""
    same, first = {}, {}
    for i, node in enumerate(flow.nodes):
        if i not in seen:
            continue
        same[i] = i
        if node.kind in ("llm", "lambda"):
            pieces = tuple(same[p] if isinstance(p, int) else p for p in node.pieces)
            # Reading: a greedy call's seed counts, too; a lambda's function is its base name.
            key = (node.kind, node.base if node.kind == "lambda" else "", pieces, node.max,
                   node.sampling, node.stops)
            same[i] = first.setdefault(key, i)
    return same


def build(flow):
    seen = needed(flow)
    same = merge(flow, seen)
    work = [i for i, n in enumerate(flow.nodes) if n.kind in ("llm", "lambda")]
    left = [i for i in work if same.get(i) == i]
    llms = [i for i in left if flow.nodes[i].kind == "llm"]
    of_node = {node: op for op, node in enumerate(llms)}
    reads, columns, ops = {}, {}, []
    for i in sorted(seen):
        node = flow.nodes[i]
        operands = {same[p] for p in node.pieces if isinstance(p, int)}
        columns[i] = {i} if node.kind == "input" else set().union(*(columns[p] for p in operands))
        reads[i] = {q for p in operands
                    for q in ([of_node[p]] if p in of_node else reads[p])}
        if i in of_node:
            symbols = [s for p in node.pieces
                       for s in ([("value", same[p])] if isinstance(p, int) else p)]
            ops.append(Op(i, node.name, node.est, symbols, reads[i],
                          [flow.nodes[c].name for c in sorted(columns[i])]))
    count = {kind: sum(n.kind == kind for n in flow.nodes) for kind in ("llm", "lambda", "input")}
    return Workflow(ops, {("value", i): flow.nodes[i].est for i in seen},
                    (count["llm"], count["lambda"], count["input"], len(flow.outputs)),
                    sum(i not in seen for i in work), sum(same.get(i, i) != i for i in work),
                    len(left))


@dataclass
class Tree:
    """An inner node, or a leaf (op is its operator). above: symbols before its own label."""
    label: list = field(default_factory=list)
    children: list = field(default_factory=list)
    op: int = None
    above: list = field(default_factory=list)

    def leaves(self):
        return [self.op] if self.op is not None else \
            [leaf for child in self.children for leaf in child.leaves()]


def insert(root, op, symbols):
    """A split node keeps its parent's place; the new branch, or the leaf, is appended."""
    node, at = root, 0
    while at < len(symbols):
        child = next((c for c in node.children if c.label and c.label[0] == symbols[at]), None)
        if child is None:
            child = Tree(symbols[at:], above=symbols[:at])
            node.children.append(child)
            node, at = child, len(symbols)
            break
        common = 0
        while common < len(child.label) and at + common < len(symbols) and \
                child.label[common] == symbols[at + common]:
            common += 1
        if common < len(child.label):
            lower = Tree(child.label[common:], child.children, None, symbols[:at + common])
            child.label, child.children = child.label[:common], [lower]
        node, at = child, at + common
    node.children.append(Tree(op=op, above=symbols))


def tree_of(workflow):
    root = Tree()
    for i, op in enumerate(workflow.ops):
        insert(root, i, op.symbols)
    return root


def common_prefix(a, b):
    count = 0
    while count < len(a) and count < len(b) and a[count] == b[count]:
        count += 1
    return count


class Cost:
    """A schedule under way: leaves are appended, and the clock of token steps runs."""

    def __init__(self, workflow, kv_tokens):
        self.workflow, self.kv_tokens = workflow, kv_tokens
        self.now, self.last, self.completion, self.new, self.order = 0, None, {}, {}, []

    def earliest(self, op):
        """e, or None while a dependency is not scheduled."""
        depends = self.workflow.ops[op].depends
        if any(d not in self.completion for d in depends):
            return None
        return max((self.completion[d] + self.kv_tokens * self.workflow.ops[d].out
                    for d in depends), default=0)

    def new_tokens(self, op):
        symbols = self.workflow.ops[op].symbols
        shared = 0 if self.last is None else \
            common_prefix(self.workflow.ops[self.last].symbols, symbols)
        return self.workflow.weight(symbols[shared:])

    def schedule(self, op):
        out, new = self.workflow.ops[op].out, self.new_tokens(op)
        start = max(self.now, self.earliest(op))
        self.now = start + out * new + out * (out + 1) // 2
        self.completion[op], self.new[op], self.last = self.now, new, op
        self.order.append(op)

    def steps(self):
        return max(self.completion.values(), default=0)


def cost_of(workflow, kv_tokens, order):
    cost = Cost(workflow, kv_tokens)
    for op in order:
        cost.schedule(op)
    return cost


class Helium:
    """Algorithm 1 with the repaired force."""

    def __init__(self, workflow, kv_tokens):
        self.cost = Cost(workflow, kv_tokens)
        self.root = tree_of(workflow)
        self.force = False
        while not self.recurse(self.root, False):
            self.recurse(self.root, True)

    def recurse(self, node, force):
        """True when nothing of the node is left."""
        self.force = force
        if node.op is not None:
            earliest = self.cost.earliest(node.op)
            if earliest is None or (earliest > self.cost.now and not force):
                return False
            self.cost.schedule(node.op)
            self.force = False      # ends with the first leaf
            return True
        tried = []
        while (child := self.select(node, tried)) is not None:
            tried.append(child)
            self.recurse(child, self.force)
        return not self.living(node)

    def living(self, node):
        return [leaf for leaf in node.leaves() if leaf not in self.cost.completion]

    def select(self, node, tried):
        siblings = [(place, c) for place, c in enumerate(node.children) if self.living(c)]
        depths = self.depths([self.living(c) for _, c in siblings])
        best = None
        for (place, child), depth in zip(siblings, depths):
            starts = [e for e in map(self.cost.earliest, self.living(child)) if e is not None]
            if any(child is t for t in tried) or not starts:
                continue
            if self.force:
                key = (min(starts), -depth, place)
            elif min(starts) <= self.cost.now:
                key = (-depth, min(starts), place)
            else:
                continue
            if best is None or key < best[0]:
                best = (key, child)
        return best[1] if best else None

    def depths(self, groups):
        """Of each sibling: strongly connected components on the longest chain of readers that
        begins at its own."""
        ops = self.cost.workflow.ops
        reach = [[i != j and any(ops[y].depends & set(groups[i]) for y in groups[j])
                  for j in range(len(groups))] for i in range(len(groups))]
        direct = [row[:] for row in reach]
        for k in range(len(groups)):
            for i in range(len(groups)):
                if reach[i][k]:
                    reach[i] = [a or b for a, b in zip(reach[i], reach[k])]

        known = {}

        def depth(i):
            if i in known:
                return known[i]
            component = [j for j in range(len(groups)) if j == i or (reach[i][j] and reach[j][i])]
            after = {j for c in component for j in range(len(groups))
                     if direct[c][j] and j not in component}
            known[i] = 1 + max((depth(j) for j in after), default=0)
            return known[i]
        return [depth(i) for i in range(len(groups))]


def sequences(workflow, order, share_min):
    """Names of the ops of each inner sequence, as it becomes complete."""
    group = {}

    def visit(node, static):
        """static: tokens above the label; None: a value is above it."""
        lead = next((i for i, s in enumerate(node.label) if is_value(s)), len(node.label))
        if static is not None and node.op is None and static + lead >= share_min:
            leaves = node.leaves()
            if len(leaves) >= 2:
                group.update({leaf: id(node) for leaf in leaves})
        below = static + lead if static is not None and lead == len(node.label) else None
        for child in node.children:
            visit(child, below)
    root = tree_of(workflow)
    visit(root, 0)
    missing, members, complete = {}, {}, []
    for op in order:
        key = group.get(op, ("alone", op))
        missing[key] = missing.get(key, 0) + 1
    for op in order:
        key = group.get(op, ("alone", op))
        members.setdefault(key, []).append(workflow.ops[op].name)
        if len(members[key]) == missing[key]:
            complete.append(members[key])
    return complete
