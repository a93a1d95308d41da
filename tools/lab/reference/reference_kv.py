# SPDX-License-Identifier: MIT
"""What: KV blocks for reference.py: two tiers of blocks, which are found by name.

Memory is ideal: a full block never changes, so it moves once in each direction; what waiting calls
need is evicted last, in the reverse of their order.
"""
from collections import OrderedDict, defaultdict


class Kv:
    def __init__(self, device, host, block):
        self.free, self.host_blocks, self.block = device, host, block
        self.owners = {}                        # on the device: name -> calls that own it
        self.idle = OrderedDict()               # of no owner, and no waiting call needs it
        self.kept = OrderedDict()               # of no owner, but a waiting call needs it
        self.host = OrderedDict()
        self.after = {}                         # name -> the block that last came after it
        self.continued = set()                  # blocks that are not full, but a call's again
        self.wanted = defaultdict(int)          # name -> waiting calls that need it
        self.blocks_in = self.blocks_out = self.blocks_copied = 0       # of the step
        self.chained = False
        self.rank = iter(())                    # names that waiting calls need, last first

    def find(self, call):
        """What is cached of a call: full blocks, positions in a block that begins like its next
        one, and the name of that block. The last known token is always computed."""
        known, count = call.known(), 0
        for name in call.names[:(known - 1) // self.block]:
            if name not in self.owners and name not in self.host:
                break
            count += 1
        ids, name = self.after.get(call.parent(count), (b"", None))
        if name not in self.owners and name not in self.host:
            return count, 0, None
        mine = call.tokens(count, known - 1)
        alike = next((i // 8 for i in range(0, min(len(ids), len(mine)), 8)
                      if ids[i:i + 8] != mine[i:i + 8]), min(len(ids), len(mine)) // 8)
        return (count, alike, name) if alike else (count, 0, None)

    def lacks(self, call, found, end):
        """Blocks that are missing for a call to have the positions before end."""
        blocks = -(-end // self.block)
        have, spare = call.named + call.private, self.free + len(self.idle) + len(self.kept)
        if not call.resident:
            names = call.names[:found[0]]
            have = sum(name in self.owners for name in names)
            spare -= sum(self.owners.get(name) == 0 for name in names)
        return blocks - have - spare

    def take(self, call, found, end):
        """Gives the call what was found, and blocks up to end. They do not lack."""
        if not call.resident:
            self.want(call, -1)
            names, source = call.names[:found[0]], found[2]
            there = [name in self.owners for name in names]
            for name, here in zip(names, there):
                if here:
                    self.own(name)
            for name, here in zip(names, there):
                if not here:
                    self.chained |= self.make_room()
                    self.blocks_in += 1
                    self.own(name)
            if source:
                self.begin_block(source, len(self.after[call.parent(found[0])][0]) // 8 == found[1])
            call.named, call.resident = found[0], True
        while call.named + call.private < -(-end // self.block):
            self.make_room()
            call.private += 1

    def begin_block(self, source, all_of_it):
        """A call goes on with what a block begins with: in a copy, or in the block itself, if it
        has nothing else and is no call's. Others can still copy that."""
        if source not in self.owners:
            self.blocks_in += 1
        elif all_of_it and self.owners[source] == 0 and source not in self.continued:
            self.continued.add(source)
        else:
            self.blocks_copied += 1
        if source in self.idle:                 # not of much use any more
            self.idle.move_to_end(source, last=False)

    def own(self, name):
        self.idle.pop(name, None)
        self.kept.pop(name, None)
        self.owners[name] = self.owners.get(name, 0) + 1

    def disown(self, name):
        self.owners[name] -= 1
        if self.owners[name] == 0:
            (self.kept if self.wanted.get(name) else self.idle)[name] = None

    def fill(self, call):
        """The blocks that a step has filled get their names. Equal blocks become one."""
        while (call.named + 1) * self.block <= call.computed:
            name, at = call.names[call.named], call.named
            self.free += name in self.owners
            self.own(name)
            self.after[call.parent(at)] = call.tokens(at, call.computed), name
            call.named, call.private = call.named + 1, call.private - 1

    def release(self, call):
        """No call has these blocks any more; the end goes before the beginning."""
        names = call.names[:call.named]
        call.need = list(names)
        self.free += call.private
        rest = call.tokens(call.named, call.computed)
        if rest:
            tail = hash((call.parent(call.named), rest))
            call.need.append(tail)
            self.after[call.parent(call.named)] = rest, tail
            if tail not in self.owners:
                self.free -= 1
                self.owners[tail] = 1
                names.append(tail)
        for name in reversed(names):
            self.disown(name)
        call.named = call.private = call.computed = 0
        call.resident = False

    def want(self, call, sign):
        """A call waits for the blocks that it needs (1), or no longer (-1)."""
        for name in call.need:
            self.wanted[name] += sign
            if not self.wanted[name]:
                del self.wanted[name]
            if sign > 0 and name in self.idle:
                del self.idle[name]
                self.kept[name] = None
            elif sign < 0 and name in self.kept and name not in self.wanted:
                del self.kept[name]
                self.idle[name] = None

    def make_room(self):
        """Takes a free block, or one whose content is the least useful. True: that moves out."""
        if self.free:
            self.free -= 1
            return False
        if self.idle:
            name, _ = self.idle.popitem(last=False)
        else:
            name = next((n for n in self.rank if n in self.kept), None) or next(iter(self.kept))
            del self.kept[name]
        del self.owners[name]
        moves = self.host_blocks > 0 and name not in self.host
        self.blocks_out += moves
        if moves and len(self.host) == self.host_blocks:
            self.host.popitem(last=False)
        if self.host_blocks:
            self.host[name] = None
            self.host.move_to_end(name)
        return moves

    def rank_waiting(self, calls):
        """From the last waiting call to the first: what no call before it needs, its end first."""
        seen = defaultdict(int)
        for call in calls:
            for name in () if call.resident else reversed(call.need):
                seen[name] += 1
                if seen[name] == self.wanted.get(name):
                    yield name
