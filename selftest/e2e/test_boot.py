# SPDX-License-Identifier: MIT
"""Boot: the command line, the memory plan, every reason to refuse, and the end."""
import os
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile

from appliance import BUILD, EXIT, HANG_S, ROOT, Appliance, listens, run, wait_for
from protocol import IGNORE_EOS, Client
from skip import Skip, inside

OFF = ("--set", "net.tcp=", "--set", "text.listen=")


def boot(*arguments, text=None):
    """Runs agentix to its end, with an optional INI text; returns (status, all output)."""
    with tempfile.TemporaryDirectory() as directory:
        if text is not None:
            path = os.path.join(directory, "a.ini")
            with open(path, "wb") as ini:
                ini.write(text)
            os.chmod(path, 0o600)
            arguments += ("--config", path)
        done = run("agentix", *arguments)
        return done.returncode, done.stdout + done.stderr


def test_version_and_help():
    version = run("agentix", "--version").stdout
    assert re.match(r"agentix \d+\.\d+\.\d+\S* protocol 1$", version, re.M), version
    for program in ("agx", "agentix-door"):
        assert run(program, "--version").stdout.split() == [program, version.split()[1]]
    # Which GPU kernels are in it, or why there are none.
    assert re.search(r"^gpu kernels: (none: |sm_\d+a? )", version, re.M), version
    text = run("agentix", "--help").stdout
    assert run("agentix", "-h").stdout == text
    for key in ("model", "policy", "steps_per_plan", "device_blocks", "lock"):
        assert key in text, key


def test_check_prints_the_plan_and_exits():
    status, text = boot("--check")
    assert status == 0, text
    for word in ("call slots", "step record", "total", "weights", "engine", "core", "shared"):
        assert word in text, word


def test_unknown_argument_is_a_usage_error():
    assert boot("--nonsense")[0] == EXIT["USAGE"]
    assert boot("--set")[0] == EXIT["USAGE"]
    for word, said in (("--port", "--set section.key=value"), ("a.gguf", "--set model.path=FILE")):
        status, text = boot(word)
        assert status == EXIT["USAGE"] and word in text and said in text, text


def test_set_takes_blanks_in_one_word_and_says_so_of_three():
    status, text = boot("--set", "limits.calls = 7", "--check")
    assert status == 0, text
    status, text = boot("--set", "limits.calls", "=", "7", "--check")
    assert status == EXIT["USAGE"] and "need quotes" in text, text


def test_an_address_in_use_names_the_option_and_what_to_do():
    """And comes before the model is looked for."""
    with Appliance() as a:
        for key, address in (("net.tcp", a.tcp), ("text.listen", a.text_address)):
            at = "%s:%d" % address
            free = {"net.tcp": "127.0.0.1:0", "text.listen": "127.0.0.1:0", key: at}
            words = [word for pair in free.items() for word in ("--set", "%s=%s" % pair)]
            status, text = boot(*words, "--set", "model.path=/no/such/model")
            assert status == EXIT["LISTEN"], text
            assert f"{key} = {at}: cannot bind: Address already in use; another" in text, text
            assert "--upgrade" in text and "/no/such/model" not in text, text


def test_ini_examples_of_the_pages_are_accepted():
    """Blocks of docs that begin with a section of ours; the file of keys is one of this test."""
    docs = os.path.join(ROOT, "docs")
    sections = set(re.findall(r"^  ([a-z]+)\.", run("agentix", "--help").stdout, re.M))
    count = 0
    for page in sorted(name for name in os.listdir(docs) if name.endswith(".md")):
        with open(os.path.join(docs, page)) as file:
            blocks = re.findall(r"(?:^    .*\n)+", file.read(), re.M)
        for block in (re.sub(r"^    ", "", block, flags=re.M) for block in blocks):
            section = re.match(r"\[([a-z]+)\]\n", block)
            if section is None or section.group(1) not in sections:
                continue
            with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
                keys.write("alice " + 64 * "a" + "\n")
                keys.flush()
                status, text = boot("--check", "--set", "auth.keys=" + keys.name,
                                    text=block.encode())
            assert status == 0, (page, block, text)
            count += 1
    assert count > 0


def test_a_missing_configuration_is_named():
    status, text = boot("--check", "--config", "/nonexistent/a.ini")
    assert status == EXIT["CONFIG"] and "/nonexistent/a.ini" in text, text


def test_a_missing_file_is_said_with_the_option_that_names_it():
    for option, expected, also in (("model.path", "MODEL", ()), ("sched.predictor", "CONFIG", ()),
                                   ("auth.keys", "CONFIG", ("--set", "auth.tcp=psk"))):
        status, text = boot("--check", "--set", option + "=/nonexistent/f", *also)
        assert status == EXIT[expected], (option, status, text)
        assert option + " = /nonexistent/f: cannot be opened: No such file" in text, text


def test_unknown_key_names_file_and_line():
    status, text = boot("--check", text=b"[sched]\npolcy = plas\n")
    assert status == EXIT["CONFIG"] and "a.ini:2" in text and "policy" in text, text


def test_bad_values_are_refused_with_the_range():
    for line in (b"batch = -1", b"batch = 0x10", b"batch = 1e3", b"batch = 4 GiB", b"batch =",
                 b"batch = 18446744073709551616", b"batch = 1 x", b"policy = best",
                 b"quantum = 5", b"batch = 2\nbatch = 3"):
        status, text = boot("--check", text=b"[sched]\n" + line + b"\n")
        assert status == EXIT["CONFIG"] and "a.ini:" in text, (line, text)


def test_set_overrides_the_file():
    status, text = boot("--check", "--set", "limits.calls=7", text=b"[limits]\ncalls = 9\n"
                        b"calls_per_connection = 7\n")
    assert status == 0, text
    assert any(line.split()[:3] == ["call", "slots", "7"] for line in text.split("\n")), text


def test_a_call_that_could_never_fit_is_refused_at_boot():
    status, text = boot("--check", "--set", "kv.device_blocks=2")
    assert status == EXIT["CONFIG"] and "kv.device_blocks" in text, text


def test_a_plan_that_does_not_fit_memory_is_refused():
    status, text = boot("--set", "limits.calls=1000000", "--set", "limits.context_tokens=1024",
                        "--set", "kv.device_blocks=16000000", *OFF)
    assert status == EXIT["MEMORY"] and "MiB" in text, text


def test_a_bad_model_has_an_exit_status_of_its_own():
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 2 ** 62, 2 ** 62))
        file.flush()
        status, text = boot("--set", "model.path=" + file.name, *OFF)
        assert status == EXIT["MODEL"] and "offset" in text, text
    assert boot("--set", "model.path=/nonexistent.gguf", *OFF)[0] == EXIT["MODEL"]


def make_model(path, preset):
    subprocess.run([os.path.join(BUILD, "tools", "mkmodel"), "--out", path, "--preset", preset,
                    "--seed", "3"], check=True, stdout=subprocess.DEVNULL)


def test_loading_shows_its_progress_in_the_log():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.gguf")
        make_model(path, "15m")
        with Appliance("model.path=" + path) as a:
            wait_for(lambda: any("loading percent=100" in line for line in a.lines), "all is read")
            said = [line.rsplit("=")[-1] for line in a.lines if "loading percent=" in line]
            assert said == sorted(said, key=int) and said[-1] == "100", a.lines
            assert len(said) == len(set(said)) <= 10, said


def test_a_model_that_is_cut_and_removed_while_it_serves_costs_nothing():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.gguf")
        make_model(path, "tiny")
        with Appliance("model.path=" + path) as a, Client(a.tcp) as c:
            before = c.generate(1, [1, 2, 3], max_tokens=30).check().tokens
            os.truncate(path, 100)
            os.unlink(path)
            for pid in [a.process.pid] + list(a.children().values()):
                assert "model.gguf" not in open(inside(pid, "maps")).read()
            worker = a.worker
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda: a.children().get("agentix-worker") not in (None, worker), "a worker")
            assert c.generate(2, [1, 2, 3], max_tokens=30).check().tokens == before


def test_memory_lock_with_a_low_limit_yes_is_refused_and_auto_warns():
    if os.geteuid() != 0:
        raise Skip("needs root, to give up the right to lock memory")

    def confine():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        os.setgid(65534)
        os.setuid(65534)

    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        binary = os.path.join(directory, "agentix")
        shutil.copy(os.path.join(BUILD, "agentix"), binary)
        command = [binary, "--set", "text.listen=", "--set", "net.tcp=127.0.0.1:0", "--set"]
        done = subprocess.run(command + ["memory.lock=yes"], preexec_fn=confine, text=True,
                              capture_output=True, timeout=HANG_S)
        assert done.returncode == EXIT["MEMORY"] and "memory.lock = yes" in done.stderr, done
        process = subprocess.Popen(command + ["memory.lock=auto"], preexec_fn=confine, text=True,
                                   stderr=subprocess.PIPE)
        warned = next((line for line in process.stderr if "memory is not locked" in line), None)
        process.send_signal(signal.SIGTERM)
        process.stderr.close()
        assert warned is not None and "ulimit -l" in warned
        assert process.wait(HANG_S) == 0


def test_addresses_in_use_or_beyond_loopback_are_refused():
    with Appliance() as a:
        status, text = boot("--set", "net.tcp=" + a.to, "--set", "text.listen=")
        assert status == EXIT["LISTEN"], text
    assert boot("--check", "--set", "net.tcp=0.0.0.0:7411")[0] == EXIT["CONFIG"]


def test_a_stale_unix_socket_is_taken_over_and_a_live_one_is_not():
    with Appliance(unix=True) as a:
        assert stat.S_IMODE(os.stat(a.unix).st_mode) == 0o660
        with Client(a.unix) as c:
            c.generate(1, [1, 2, 3]).check()
        status, text = boot("--set", "net.unix=" + a.unix, *OFF)
        assert status == EXIT["LISTEN"], text
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "s")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        with Appliance("net.unix=" + path):
            with Client(path) as c:
                c.generate(1, [1, 2, 3]).check()
        assert not os.path.exists(path)


def test_the_embedded_model_serves_when_none_is_named():
    with Appliance() as a, Client(a.tcp) as c:
        assert c.welcome["model"].rstrip(b"\0") == b"agentix-agent"
        assert (c.welcome["vocab_tokens"], c.welcome["context_tokens_max"]) == (1024, 1024)


def test_it_serves_in_an_empty_chroot():
    if os.geteuid() != 0:
        raise Skip("needs root, for chroot")
    with tempfile.TemporaryDirectory() as directory:
        binary = os.path.join(directory, "agentix")
        with open(os.path.join(BUILD, "agentix"), "rb") as source, open(binary, "wb") as target:
            target.write(source.read())
        os.chmod(binary, 0o755)
        process = subprocess.Popen(
            ["/agentix", "--set", "net.tcp=", "--set", "text.listen=", "--set", "net.unix=/s"],
            preexec_fn=lambda: (os.chroot(directory), os.chdir("/")), stderr=subprocess.DEVNULL)
        try:
            path = os.path.join(directory, "s")
            wait_for(lambda: listens(path), "the socket")
            with Client(path) as c:
                assert len(c.generate(1, [1, 2], max_tokens=5).check().tokens) == 5
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_the_binary_is_static():
    done = subprocess.run(["ldd", os.path.join(BUILD, "agentix")], capture_output=True, text=True)
    assert "not a dynamic executable" in done.stdout + done.stderr or "statically" in done.stdout


def test_sigterm_drains_and_open_calls_finish():
    with Appliance() as a:
        with Client(a.tcp) as c:
            outcome = c.start(1, [1, 2, 3], max_tokens=600)
            while not outcome.tokens:
                c.step()
            a.process.send_signal(signal.SIGTERM)
            wait_for(lambda: any("draining" in line for line in a.lines), "draining")
            c.finish(1).check()
            assert len(outcome.tokens) == 600
        assert a.process.wait(60) == 0


def test_a_second_sigterm_ends_at_once():
    a = Appliance()
    with Client(a.tcp) as c:
        for i in range(8):
            c.start(i + 1, [1, 2, 3], max_tokens=1000)
        while not c.calls[1].tokens:
            c.step()
        a.process.send_signal(signal.SIGTERM)
        wait_for(lambda: any("draining" in line for line in a.lines), "draining")
        a.process.send_signal(signal.SIGTERM)
        assert c.is_closed()
    assert a.stop() == 0


def test_new_calls_are_refused_while_draining():
    with Appliance("limits.drain=10min") as a:
        with Client(a.tcp) as c:
            with a.standing_still():
                c.start(1, [1, 2, 3], max_tokens=100)
                c.step()
                a.process.send_signal(signal.SIGTERM)
                wait_for(lambda: a.health().startswith("draining"), "draining")
                c.start(2, [1, 2, 3], flags=IGNORE_EOS)
                second = c.finish(2)
                assert second.error is not None and "draining" in second.error["text"]
            c.finish(1).check()
