# SPDX-License-Identifier: MIT
"""The memory plan of the real binary: models of usual shapes, commands that fit where one does not,
and drawn configurations, of which each ends in a known exit status and a sentence (CONFIGS of them,
from the seed CONFIGS_SEED)."""
import os
import random
import re
import shlex
import subprocess
import tempfile

from appliance import BUILD, EXIT, HANG_S, ROOT, run
from control_group import ControlGroup

CONFIGS = int(os.environ.get("CONFIGS", "300"))
SEED = int(os.environ.get("CONFIGS_SEED", "7"))
USUAL = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b")


def make(directory, preset, *more):
    """A model whose weights are a hole in the file: a plan reads its header."""
    path = os.path.join(directory, preset + ".gguf")
    subprocess.run([os.path.join(BUILD, "tools", "mkmodel"), "--out", path, "--preset", preset,
                    "--sparse", *more], check=True)
    return path


def check(*sets):
    words = [word for one in sets for word in ("--set", one)]
    return run("agentix", "--check", *words)


def advice(done):
    """The words of the command that it prints; None: it says that there is none."""
    if "this command fits:\n" not in done.stderr:
        assert "no command fits: weights alone take" in done.stderr, done.stderr
        return None
    words = shlex.split(done.stderr.partition("this command fits:\n")[2].splitlines()[0])
    assert words[0] == "agentix", words
    return words[1:]


def assert_fits(words):
    done = run("agentix", "--check", *words)
    assert done.returncode == 0, (words, done.stderr)


def account(text):
    """The numbers of `where the memory goes`."""
    part = text.partition("where the memory goes, in MiB\n")[2]
    found = (re.match(r"  (\S+(?: \S+)?) +([\d.]+)  ", line) for line in part.splitlines())
    return {match[1]: float(match[2]) for match in found if match}


def test_check_shows_where_the_memory_goes():
    done = check()
    assert done.returncode == 0, done.stderr
    where = account(done.stdout)
    total = float(re.search(r"^total +([\d.]+)", done.stdout, re.M)[1])
    parts = sum(where[part] for part in ("weights", "kv", "next core", "rest"))
    assert abs(parts - total) < 0.2, done.stdout
    assert total < 196, "the embedded model's plan stays small"
    assert "all that calls can use" in done.stdout, done.stdout


def test_usual_models_fit_with_their_path_alone_or_say_what_does():
    """On this machine, whatever it has."""
    with tempfile.TemporaryDirectory() as directory:
        for preset in USUAL:
            path = make(directory, preset, "--type", "q4_0")
            done = check("model.path=" + path)
            if done.returncode == 0:
                where = account(done.stdout)
                print("  %s: weights %.0f MiB, kv %.0f, rest %.0f" % (
                    preset, where["weights"], where["kv"], where["rest"]))
                continue
            assert done.returncode == EXIT["MEMORY"], done.stderr
            words = advice(done)
            print("  %s: %s" % (preset, words))
            if words is not None:
                assert_fits(words)


def test_the_command_for_a_plan_that_does_not_fit_fits():
    for sets in (["kv.device_blocks=16777216"], ["kv.device_blocks=16777216", "kv.host_ratio=16"],
                 ["limits.connections=65536", "net.send_bytes=16MiB", "limits.calls=1048576"],
                 ["limits.calls=1048576", "sched.batch=1024", "kv.device_blocks=16000000"]):
        done = check(*sets)
        assert done.returncode == EXIT["MEMORY"] and "MiB are" in done.stderr, (sets, done.stderr)
        words = advice(done)
        print("  " + shlex.join(["agentix"] + words))
        assert_fits(words)


def test_weights_that_exceed_memory_have_no_command():
    with tempfile.TemporaryDirectory() as directory:
        path = make(directory, "llama-3.1-8b", "--layers", "256", "--dim", "32768", "--heads",
                    "256", "--ffn", "131072")
        done = check("model.path=" + path)
        assert done.returncode == EXIT["MEMORY"] and advice(done) is None, done.stderr


def inside(enter, *words):
    return subprocess.run([os.path.join(BUILD, "agentix"), *words], text=True, timeout=HANG_S,
                          capture_output=True, preexec_fn=enter)


def test_a_plan_beyond_the_limit_of_the_control_group_is_refused_with_a_command_that_fits():
    off = ("--set", "net.tcp=", "--set", "text.listen=")
    with ControlGroup(32 << 20) as group:
        done = inside(group.enter, "--set", "net.send_bytes=1MiB", *off)
        found = re.search(r"([\d.]+) MiB are left in the control group", done.stderr)
        assert done.returncode == EXIT["MEMORY"] and found and 24 < float(found[1]) <= 32, done
        words = advice(done)
        print("  " + shlex.join(["agentix"] + words))
        done = inside(group.enter, "--check", *words)
        assert done.returncode == 0, (words, done.stderr)


def test_kv_takes_what_the_control_group_has_left():
    with tempfile.TemporaryDirectory() as directory, ControlGroup(3 << 30) as group:
        path = make(directory, "qwen3-0.6b", "--type", "q4_0")
        done = inside(group.enter, "--check", "--set", "model.path=" + path)
        assert done.returncode == 0, done.stderr
        assert "what the reserve leaves" in done.stdout, done.stdout
        assert "left in the control groups: the bound" in done.stdout, done.stdout


# ---- drawn configurations ----

def options():
    """(name, default, what is allowed) of every option, from --help."""
    lines = run("agentix", "--help").stdout.splitlines()
    for line in lines:
        found = re.match(r"  (\w+\.\w+) = (.*?)  \((.*)\)$", line)
        if found:
            yield found[1], found[2], found[3]


def number(text):
    return float(re.match(r"[\d.]+", text)[0]) if text[:1].isdigit() else None


def draw_value(chance, default, allowed):
    """Of an option, in its range, at an edge, beyond, or no value of it at all."""
    for words in (["auto"], ["auto", "off"]):
        prefix = ", ".join(words) + " or "
        if allowed.startswith(prefix):
            if chance.randrange(3) == 0:
                return chance.choice(words)
            allowed = allowed[len(prefix):]
    low, _, high = allowed.partition(" .. ")
    if not high:
        return chance.choice(allowed.split("|") * 8 + ["other"])
    if high.endswith("bytes"):
        return chance.choice(["", "127.0.0.1:0", "[::1]:7411", "/dev/null", "none", "'", "x" * 300]
                             if chance.randrange(4) == 0 else [default])
    unit = high.lstrip("0123456789.")
    kind = chance.randrange(24)
    if kind < 9:
        return (low, high, default)[kind % 3]
    if kind == 9:
        return "%d%s" % (number(high) + 1, unit)
    if kind == 10:
        return chance.choice(["", "-1", "1e9", "18446744073709551616", "0x10", " 5"])
    top = number(high) / 2 ** chance.randrange(40)
    return "%d%s" % (chance.uniform(number(low), max(top, number(low))), unit)


def test_drawn_configurations_end_in_a_known_status_and_a_sentence():
    chance = random.Random(SEED)
    rows = [row for row in options() if not row[0].startswith("prefix.")]
    assert len(rows) > 50, rows
    ended = {EXIT[name]: 0 for name in ("OK", "CONFIG", "MODEL", "MEMORY", "ENGINE")}
    with tempfile.TemporaryDirectory() as directory:
        models = ["", "/dev/null", __file__]
        models += [make(directory, preset, "--type", "q4_0") for preset in USUAL]
        for _ in range(CONFIGS):
            sets = ["%s=%s" % (name, draw_value(chance, default, allowed))
                    for name, default, allowed in
                    chance.sample(rows, chance.choice((1, 2, 3, 5, 10, 30)))]
            sets.append("model.path=" + chance.choice(models))
            done = check(*sets)
            assert done.returncode in ended, (sets, done.returncode, done.stderr)
            assert done.returncode == 0 or re.search(r"\w{3,} \w+", done.stderr), (sets, done)
            ended[done.returncode] += 1
            words = advice(done) if done.returncode == EXIT["MEMORY"] else None
            if words is not None:
                assert_fits(words)
    print("  %d configurations of seed %d: %s" % (
        CONFIGS, SEED, ", ".join("%d end with %d" % (n, status) for status, n in ended.items())))
    usual = [ended[EXIT[name]] for name in ("OK", "CONFIG", "MEMORY")]
    assert CONFIGS < 100 or min(usual) > 0, ended


def test_the_worked_example_of_the_page_is_what_check_prints():
    """But for the rows of the kernels, which depend on the instructions of this CPU."""
    with open(os.path.join(ROOT, "docs", "memory.md")) as file:
        section = file.read().partition("## A worked example")[2].partition("\n## ")[0]
    words = shlex.split(re.search(r"^    build/(agentix --check .*)$", section, re.M).group(1))
    done = run(*words)
    assert done.returncode == 0, done
    shown = re.findall(r"^\| (?!kernels)(.+?) \| (\d+) x (\d+) \| ([\d.]+) \|", section, re.M)
    printed = re.findall(r"^(\S.*?) +(\d+) x +(\d+) +([\d.]+)  ", done.stdout, re.M)
    assert len(shown) > 10 and set(shown) <= set(printed), set(shown) - set(printed)
    large = {row for row in printed if float(row[3]) > 0.6 and not row[0].startswith("kernels")}
    assert large <= set(shown), large - set(shown)
    for kind in ("core", "kept", "shared", "model"):
        mib = re.search(r"^sum +([\d.]+)  %s$" % kind, done.stdout, re.M).group(1)
        assert "%s %s," % (kind, mib) in section, (kind, mib)
