# SPDX-License-Identifier: MIT
"""One appliance drives several engines: CPU workers, or soft GPUs. All serve, tokens are those of
one engine, and what befalls one of them costs the others nothing.

Method: answers of one engine with one thread are the right ones. The page `engines` proves which
engines did steps; workers are killed by the pids that it shows.
"""
import os
import random
import re
import signal

from appliance import NOISE, Appliance, stop, wait_for
from engines import Load, answers, kill, rows, sampling, prompt, wait_busy
from protocol import FAILED, Client
from skip import Skip, long
from test_gpu import ON_SOFT
from test_prefixes import SYSTEM, WHOLE, Ids, ask_all, tokens_of

ONE_THREAD = (NOISE, "engine.threads=1")
KILLS = int(os.environ.get("KILLS", "1000"))
BALANCES = ("auto", "local", "program", "rr", "least", "preble")


def on_gpus(count, *settings):
    devices = ",".join(map(str, range(count)))
    return Appliance(NOISE, "engine.kind=cuda", "engine.devices=" + devices, *ON_SOFT, *settings,
                     environment={"SOFTGPU_DEVICES": str(count)})


# ---- CPU workers --------------------------------------------------------------------------------

def test_two_workers_have_the_tokens_of_one_and_both_serve():
    expected = answers(40, 60, NOISE)
    with Appliance(*ONE_THREAD, "engine.workers=2") as a:
        with Load(a, expected) as load:
            load.wait_count(200)
            wait_busy(a, load)
        engines = rows(a)
        assert len(engines) == 2 and all(row["steps"] > 0 for row in engines), engines
        print("  %d calls, steps %s" % (load.count, [row["steps"] for row in engines]))
        assert load.health == {"ready"}, load.health
        assert a.stats()["engine_restarts"] == 0
        a.wait_back()


def test_two_workers_that_swap_and_preempt_have_the_tokens_of_one():
    expected = answers(40, 60, NOISE)
    with Appliance(*ONE_THREAD, "engine.workers=2", "limits.context_tokens=128",
                   "kv.block_tokens=8", "kv.device_blocks=16", "kv.host_ratio=4",
                   "sched.quantum=1us") as a:
        with Load(a, expected, at_once=8) as load:
            wait_busy(a, load)
            wait_for(lambda: a.stats()["preemptions"] > 20, "calls lose their blocks")
        a.wait_back()


def test_each_way_to_balance_has_the_tokens_of_one_through_kills():
    expected = answers(40, 60, NOISE)
    for balance in BALANCES:
        with Appliance(*ONE_THREAD, "engine.workers=3", "sched.balance=" + balance,
                       "sched.balance_tokens=10", "engine.failures=0") as a:
            with Load(a, expected, programs=9) as load:
                wait_busy(a, load)
                for engine in (2, 0, 1):
                    kill(a, load, engine, which=any)
                load.wait_count(load.count + 50)
            stats = a.stats()
            print("  %s: %d calls, %d routed anew, steps %s" % (
                balance, load.count, stats["calls_rerouted"], [row["steps"] for row in rows(a)]))
            a.wait_back()


def test_workers_have_cpus_of_their_own():
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        raise Skip("needs two CPUs")
    with Appliance(NOISE, "engine.workers=2") as a:
        parts = [os.sched_getaffinity(row["worker_pid"]) for row in rows(a)]
        assert not parts[0] & parts[1] and max(parts[0]) < min(parts[1]), parts
        assert parts[0] | parts[1] == os.sched_getaffinity(0), parts
        assert os.sched_getaffinity(a.core) == os.sched_getaffinity(0)
        first = rows(a)[0]["worker_pid"]
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: rows(a)[0]["worker_pid"] not in (0, first), "a successor")
        assert os.sched_getaffinity(rows(a)[0]["worker_pid"]) <= parts[0] | parts[1]
        a.wait_ready()
        assert os.sched_getaffinity(rows(a)[0]["worker_pid"]) == parts[0]
    with Appliance(NOISE) as a:
        assert os.sched_getaffinity(a.worker) == os.sched_getaffinity(0)


def test_more_workers_than_cpus_share_them_and_the_log_says_so():
    one = {min(os.sched_getaffinity(0))}
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, one)
    try:
        with Appliance(NOISE, "engine.workers=3") as a:
            a.wait_said("engine.workers = 3, and 1 CPUs: they share them")
            assert a.said(" cpus=") == 0, a.lines
            assert len(rows(a)) == 3
            with Client(a.tcp) as c:
                c.generate(1, prompt(1)).check()
    finally:
        os.sched_setaffinity(0, all_of_them)


# ---- what befalls one ---------------------------------------------------------------------------

def test_a_worker_killed_under_load_costs_the_others_nothing():
    expected = answers(40, 60, NOISE)
    with Appliance(*ONE_THREAD, "engine.workers=2", "engine.failures=0") as a:
        with Load(a, expected) as load:
            wait_busy(a, load)
            for engine in (0, 1, 1, 0, 0, 1):
                kill(a, load, engine)
                wait_busy(a, load)
        assert [row["restarts"] for row in rows(a)] == [3, 3]
        assert a.stats()["calls_rerouted"] > 0
        for engine in (0, 1):
            a.wait_said("engine %d worker died pid=" % engine, 3)
        assert all(re.match(r"ready|degraded\(engine [01] (restarting|silent)\)", word)
                   for word in load.health), load.health
        a.wait_ready()
        a.wait_back()


def test_a_worker_that_hangs_under_load_is_replaced_and_its_calls_end_rightly():
    expected = answers(40, 60, NOISE)
    with Appliance(*ONE_THREAD, "engine.workers=2", "engine.failures=0", "engine.hang=2s") as a:
        with Load(a, expected) as load:
            wait_busy(a, load)
            worker = rows(a)[1]["worker_pid"]
            stop(worker)
            for _ in range(3):
                wait_busy(a, load, but=1)
            a.wait_said("engine 1 worker was hung pid=%d" % worker)
            wait_busy(a, load)
        assert any("engine 1" in word for word in load.health), load.health
        a.wait_ready()
        a.wait_back()


def test_each_engine_has_the_prefixes_before_it_serves_and_after_a_kill():
    with Appliance(NOISE, "kv.sharing=off") as a, Client(a.tcp) as c:
        alone = tokens_of(ask_all(c))
    with Ids(SYSTEM) as path, Appliance(NOISE, "engine.workers=2", "prefix.1=" + path,
                                        "sched.balance=rr") as a, Client(a.tcp) as c:
        assert a.stats()["kv_blocks_declared"] == 2 * 6, a.stats()
        for number, engine in enumerate((None, 0, 1)):
            if engine is not None:
                worker = rows(a)[engine]["worker_pid"]
                os.kill(worker, signal.SIGKILL)
                wait_for(lambda: rows(a)[engine]["worker_pid"] not in (0, worker), "a successor")
            answered = ask_all(c, first_id=1 + 10 * number)
            assert tokens_of(answered) == alone
            assert all(cached >= WHOLE for _, cached in answered[:4]), answered
        steps = [row["steps"] for row in rows(a)]
        assert min(steps) > 0, steps


def test_health_names_an_engine_that_is_silent_and_the_others_serve():
    with Appliance(NOISE, "engine.workers=2") as a, Client(a.tcp) as c:
        worker = rows(a)[1]["worker_pid"]
        stop(worker)
        wait_for(lambda: a.health().startswith("degraded(engine 1 silent)"), "it is named")
        assert rows(a)[1]["state"] == "silent" and rows(a)[0]["state"] != "silent", rows(a)
        os.kill(worker, signal.SIGCONT)
        a.wait_ready()
        c.generate(1, prompt(1)).check()


def test_an_engine_that_backs_off_comes_back_and_costs_the_others_nothing():
    expected = answers(20, 30, NOISE)
    with Appliance(*ONE_THREAD, "engine.workers=2", "engine.failures=2") as a:
        with Load(a, expected) as load:
            wait_busy(a, load)
            kill(a, load, 1)
            wait_busy(a, load)
            os.kill(rows(a)[1]["worker_pid"], signal.SIGKILL)
            wait_for(lambda: a.health().startswith("degraded(engine 1 backs off: died)"),
                     "it is named")
            a.wait_said("engine 1 worker fails often: the next one starts in 1 s")
            wait_for(lambda: rows(a)[1]["state"] in ("busy", "idle"), "it is back")
            wait_busy(a, load, which=any)
        a.wait_back()
        a.wait_ready()


def test_service_begins_although_an_engine_never_starts():
    """The second of two devices fails every worker at its first allocation."""
    with Appliance(NOISE, "engine.kind=cuda", "engine.devices=0,1", *ON_SOFT, environment={
            "SOFTGPU_DEVICES": "2", "SOFTGPU_FAULTS": "1:alloc:1"}, wait=False) as a:
        wait_for(lambda: a.health().startswith("degraded(engine 1 died)"), "service begins")
        assert [row["state"] for row in rows(a)] == ["idle", "given_up"]
        with Client(a.tcp) as c:
            c.generate(1, prompt(1)).check()


# ---- GPUs ---------------------------------------------------------------------------------------

def serve_on_gpus(count, kills):
    expected = answers(12, 12, NOISE)
    with on_gpus(count, "engine.failures=0") as a:
        assert len(rows(a)) == count
        with Load(a, expected, programs=count, at_once=3) as load:
            wait_busy(a, load)
            for i in range(kills):
                kill(a, load, (i + 1) % count)
            wait_busy(a, load)
            load.wait_count(24)
        assert sum(row["restarts"] for row in rows(a)) == kills
        print("  %d calls, steps %s" % (load.count, [row["steps"] for row in rows(a)]))
        a.wait_ready()


def test_two_gpus_have_the_cpus_tokens_and_both_serve():
    serve_on_gpus(2, 3)


def test_four_gpus_have_the_cpus_tokens_and_all_serve():
    serve_on_gpus(4, 4)


# ---- many kills ---------------------------------------------------------------------------------

@long
def test_many_kills_of_random_workers_of_four(kills=KILLS):
    expected = answers(60, 60, NOISE)
    chosen = random.Random(7)
    with Appliance(*ONE_THREAD, "engine.workers=4", "engine.failures=0") as a:
        with Load(a, expected, programs=8, at_once=4) as load:
            wait_busy(a, load)
            gaps = [kill(a, load, chosen.randrange(4)) for _ in range(kills)]
        print("  %d kills, %d calls, each right; longest time without a step of an engine that "
              "was not killed %d ms" % (kills, load.count, max(gaps)))
        assert sum(row["restarts"] for row in rows(a)) == kills
        a.wait_ready()
        a.wait_back()
