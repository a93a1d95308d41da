# SPDX-License-Identifier: MIT
"""Three boxes behind the real HAProxy: programs stay with their box, a drained box moves only its
own, a lost one costs its open calls a retry, weights follow what a box says, and limits of an
address are those of clients."""
import asyncio
import collections
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

import boxes
from appliance import BUILD, HANG_S, ROOT, stop, wait_for
from boxes import KEY, Fleet
from protocol import ERROR, WELCOME, Client, hello, unpack

sys.path.insert(0, os.path.join(ROOT, "tools", "sdk", "python"))
import agentix  # noqa: E402
from agentix.connection import Connection  # noqa: E402

PROGRAMS = 300
CLIENT_KEY = ("fleet", bytes.fromhex(boxes.SECRET))
PROMPT = [5, 6, 7]


# ---- who serves whom -----------------------------------------------------------------------------

def boot_ids(fleet):
    """boot id -> number of the box."""
    async def ask(box):
        connection = await Connection.open("127.0.0.1:%d" % fleet.ports[box.number][0], CLIENT_KEY)
        connection.close()
        return connection.welcome["boot_id"]
    found = {}
    for box in fleet.boxes.values():
        with box.inside():
            found[asyncio.run(ask(box))] = box.number
    return found


def boxes_of(fleet, names, call_id=None):
    """The box that serves each session, over a new connection; with `call_id` it makes a call."""
    known = boot_ids(fleet)

    async def visit(name):
        connection = await Connection.open(fleet.to, CLIENT_KEY, name)
        connection.close()
        return known[connection.welcome["boot_id"]]

    async def call(name):
        async with await agentix.connect(fleet.to, key=CLIENT_KEY, affinity=name) as client:
            await client.call(PROMPT, max_tokens=2, program=name, ignore_eos=True)
            return known[client.welcome["boot_id"]]

    async def all_of_them():
        some, found = asyncio.Semaphore(16), {}

        async def one(name):
            async with some:
                found[name] = await (call if call_id is not None else visit)(name)
        await asyncio.gather(*(one(name) for name in names))
        return found
    return asyncio.run(all_of_them())


def names(count=PROGRAMS):
    return ["session-%d" % i for i in range(count)]


def moved(before, after):
    """The boxes that sessions have left, and how many each."""
    return collections.Counter(before[name] for name in before if before[name] != after[name])


def test_programs_stay_with_their_box_and_a_drain_moves_only_its_own():
    with Fleet("limits.programs=1024") as f:
        before = boxes_of(f, names(), call_id=1)
        assert len(set(before.values())) == 3, before
        assert boxes_of(f, names(), call_id=2) == before
        programs = {n: box.stats()["programs_open"] for n, box in f.boxes.items()}
        assert programs == collections.Counter(before.values()), programs       # 300, none twice
        f.order(2, "drain")
        f.wait_server(2, "DRAIN")
        drained = boxes_of(f, names())
        assert 2 not in drained.values()
        assert moved(before, drained) == {2: programs[2]}
        f.order(2, "ready")
        f.wait_server(2, "UP")
        assert boxes_of(f, names()) == before


def test_a_box_that_is_added_takes_its_share_and_no_other_moves():
    with Fleet() as f:
        before = boxes_of(f, names())

        async def body():
            session = await Session(f, "here before").open()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, add)
            reply = await session.client.call(PROMPT, max_tokens=4, ignore_eos=True)
            assert len(reply.tokens) == 4 and session.connects == 0     # it keeps its connection
            await session.client.close()

        def add():
            f.start_box(4).wait_ready()
            f.start_haproxy()
        asyncio.run(body())
        after = boxes_of(f, names())
        left = moved(before, after)
        assert 0 < sum(left.values()) < PROGRAMS / 2, left
        assert sum(n == 4 for n in after.values()) == sum(left.values()), left


# ---- a box that ends, or is lost -----------------------------------------------------------------

class Session:
    """A client and how often it had to connect."""

    def __init__(self, fleet, name):
        self.name, self.fleet, self.connects = name, fleet, 0

    async def open(self):
        self.client = await agentix.connect(self.fleet.to, key=CLIENT_KEY, affinity=self.name,
                                            patience_s=HANG_S)
        self.boot_id = self.client.welcome["boot_id"]
        connect = self.client._connect

        async def counted():
            connection = await connect()
            self.connects += 1
            return connection
        self.client._connect = counted
        return self


def expected_tokens(fleet, most):
    """Of one call, from a box that is asked directly."""
    with fleet.boxes[1].inside(), Client(("127.0.0.1", fleet.ports[1][0]), key=KEY) as c:
        return c.generate(1, PROMPT, max_tokens=most).check().tokens


def lose(fleet, sessions_count, loses):
    """Open calls at every box, then `loses(box 2)`: what it costs each session."""
    wanted, known = expected_tokens(fleet, 100), boot_ids(fleet)

    def opened():
        return sum(box.stats()["calls_open"] for box in fleet.boxes.values())

    async def body():
        sessions = [await Session(fleet, name).open() for name in names(sessions_count)]
        workers = {n: box.worker for n, box in fleet.boxes.items()}
        for worker in workers.values():
            os.kill(worker, signal.SIGSTOP)
        calls = [s.client.call(PROMPT, max_tokens=100, ignore_eos=True) for s in sessions]
        replies = [asyncio.ensure_future(collect(call)) for call in calls]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, wait_for, lambda: opened() == len(sessions),
                                   "every call is open")
        loses(fleet.boxes[2])
        for number in (1, 3):
            os.kill(workers[number], signal.SIGCONT)
        for reply in await asyncio.wait_for(asyncio.gather(*replies), HANG_S):
            assert reply == wanted, "the same tokens"
        for session in sessions:
            assert session.connects == (known[session.boot_id] == 2), session.name
            await session.client.close()
        return collections.Counter(known[session.boot_id] for session in sessions)

    async def collect(call):
        return (await call).tokens
    share = asyncio.run(body())
    assert len(share) == 3, share
    for number in (1, 3):
        stats = fleet.boxes[number].stats()
        assert stats["calls_cancelled"] == stats["calls_failed"] == 0, stats
    moved_here = sum(fleet.boxes[n].stats()["calls_accepted"] for n in (1, 3)) - 1  # the expected
    assert moved_here == sessions_count, "each of the lost box's calls once more, others once"


def test_the_death_of_a_box_costs_its_open_calls_a_retry():
    with Fleet() as f:
        lose(f, 30, lambda box: box.die())
        f.wait_server(2, "DOWN")
        f.start_box(2).wait_ready()
        f.wait_server(2, "UP", 100)


def test_a_box_whose_cable_is_pulled_costs_its_open_calls_a_retry():
    with Fleet(needs="to pull a cable") as f:
        lose(f, 30, lambda box: f.network.cut(box.number))
        assert f.servers()[2][0].startswith("DOWN"), f.servers()
        os.kill(f.boxes[2].worker, signal.SIGCONT)


TRACE = b"agentix-trace 1\n" + b"".join(
    b"program %d 0 kind%d\ncall 0 after=- gap=0 in=u:20 out=40\n"
    b"call 1 after=0 gap=0 in=p:0+o:0+u:4 out=40\n" % (i, i % 3) for i in range(48))


def test_replay_goes_on_over_the_death_of_a_box():
    with Fleet() as f, tempfile.TemporaryDirectory() as directory:
        trace, report = (os.path.join(directory, name) for name in ("trace", "report"))
        with open(trace, "wb") as file:
            file.write(TRACE)
        stop(f.boxes[2].worker)             # so that its calls stay open
        replay = subprocess.Popen(
            [os.path.join(BUILD, "agx"), "--key-file", f.keys, "--to", f.to, "replay", trace,
             "--pool", "24", "--rate", "1000", "--json", report],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: f.boxes[2].stats()["calls_open"] > 0 or replay.poll() is not None,
                 "box 2 has calls")
        f.boxes[2].die()
        said = replay.communicate(timeout=HANG_S)[0]
        assert replay.returncode == 0, said
        with open(report, encoding="ascii") as file:
            result = json.load(file)
        assert result["completed"] == 48 and result["failed"] == 0, result
        assert result["reconnects"] > 0, result


def test_a_box_that_is_stopped_ends_what_is_open_and_comes_back_by_itself():
    with Fleet("limits.drain=10min") as f:
        before = boxes_of(f, names(60))
        mine = next(name for name in before if before[name] == 2)

        async def body():
            session = await Session(f, mine).open()
            worker = f.boxes[2].worker
            os.kill(worker, signal.SIGSTOP)
            call = asyncio.ensure_future(wait(session.client.call(PROMPT, max_tokens=50,
                                                                  ignore_eos=True)))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, wait_for,
                                       lambda: f.boxes[2].stats()["calls_open"] == 1, "it is open")
            f.boxes[2].process.send_signal(signal.SIGTERM)
            await loop.run_in_executor(None, f.wait_server, 2, "", 0)
            after = await loop.run_in_executor(None, boxes_of_others, f, before)
            assert moved(before, after).keys() == {2} and 2 not in after.values()
            os.kill(worker, signal.SIGCONT)
            assert await asyncio.wait_for(call, HANG_S) == 50
            assert session.connects == 0
            await session.client.close()

        async def wait(call):
            return len((await call).tokens)
        asyncio.run(body())
        assert f.boxes[2].stop() == 0
        f.wait_server(2, "DOWN")
        f.start_box(2).wait_ready()
        f.wait_server(2, "UP", 100)
        assert boxes_of(f, names(60)) == before


def boxes_of_others(fleet, before):
    """The same while box 2, which takes no new connection, drains."""
    box = fleet.boxes.pop(2)
    try:
        return boxes_of(fleet, before)
    finally:
        fleet.boxes[2] = box


# ---- weights -------------------------------------------------------------------------------------

def test_weights_follow_free_calls_and_move_sessions():
    with Fleet("limits.calls=4", "net.send_bytes=4352", "net.unsent_tokens=1",
               "sched.steps_per_plan=1") as f:
        before = boxes_of(f, names())
        box = f.boxes[1]
        with box.inside():
            # Who does not read keeps its calls open.
            deaf = Client(("127.0.0.1", f.ports[1][0]), receive_bytes=2048, key=KEY)
        next_id = 1
        while box.stats()["calls_paused"] < 3:
            if box.stats()["calls_open"] < 3:
                deaf.start(next_id, PROMPT, max_tokens=400)
                next_id += 1
                wait_for(lambda: box.stats()["calls_accepted"] == next_id - 1, "it is accepted")
        assert box.text("agent-check") == "up 25%"
        f.wait_server(1, "UP", 25)
        after = boxes_of(f, names())
        left = moved(before, after)
        assert left.keys() == {1}, left                 # and none between the others
        assert 0 < left[1] < sum(n == 1 for n in before.values()), left
        deaf.close()
        f.wait_server(1, "UP", 100)
        assert boxes_of(f, names()) == before


# ---- limits of an address ------------------------------------------------------------------------

FEW_PLACES = ("net.preauth=8", "net.preauth_per_address=2")


def knock(fleet, source):
    """Says HELLO from this address and no more; the socket, and what came: WELCOME or an ERROR."""
    s = socket.create_connection(fleet.front, timeout=HANG_S, source_address=(source, 0))
    s.sendall(hello(name=b"the same session for all"))
    head = b""
    while len(head) < 16:
        head += s.recv(16 - len(head))
    length = int.from_bytes(head[8:12], "little")
    payload = b""
    while len(payload) < length:
        payload += s.recv(length - len(payload))
    return s, (head[4], unpack(head[4], payload)[0])


def test_limits_of_an_address_hold_behind_the_proxy():
    with Fleet(needs="for clients with addresses of their own", preauth=FEW_PLACES) as f:
        held = [knock(f, "10.7.0.11") for _ in range(2)]
        assert [kind for _, (kind, _) in held] == [WELCOME, WELCOME]
        refused, (kind, error) = knock(f, "10.7.0.11")
        assert kind == ERROR and error["found"] == error["max"] == 2, error
        others = [knock(f, "10.7.0.%d" % last) for last in (12, 12, 13)]
        assert [kind for _, (kind, _) in others] == [WELCOME] * 3
        lines = [line for box in f.boxes.values()
                 for line in box.text("connections").splitlines()[1:]]
        assert sorted(line.split()[5] for line in lines) == \
            ["10.7.0.11", "10.7.0.11", "10.7.0.12", "10.7.0.12", "10.7.0.13"], lines
        assert all(line.endswith(" the.same.session.for.all") for line in lines), lines
        for s, _ in held + others + [(refused, None)]:
            s.close()


def test_strangers_reach_no_box():
    with Fleet() as f:
        before = {n: box.stats()["connections_accepted"] for n, box in f.boxes.items()}
        for words in (b"GET / HTTP/1.0\r\n\r\n", b"\r\n\r\n\0\r\nQUIT\n" + bytes(200)):
            with socket.create_connection(f.front, timeout=HANG_S) as s:
                s.sendall(words)
                try:
                    assert s.recv(100) == b""
                except ConnectionResetError:
                    pass
        with socket.create_connection(f.front, timeout=HANG_S) as s:
            s.sendall(hello()[:83])         # a byte is missing, and time is up
            assert s.recv(100) == b""
        assert before == {n: box.stats()["connections_accepted"] for n, box in f.boxes.items()}
        assert all(box.stats()["proxy_headers_bad"] == 0 for box in f.boxes.values())

