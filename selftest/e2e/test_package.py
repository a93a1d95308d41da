# SPDX-License-Identifier: MIT
"""What `make install` puts on a machine: programs, library, manual, completion, units. The package
that Debian's tools make of it is tested by tools/systemd/whole, in a booted container."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile

from appliance import BUILD, HANG_S, ROOT, Appliance, run
from skip import Skip, long


# What docs/chat.md calls, with the headers that it names.
ANSWERS = r"""
#include "agx.h"
#include "config/chat/answer.h"
#include <stdio.h>

static char memory[1 << 16];
int main(void)
{
    const struct chat chat = {0};
    struct chat_format format = {.id = CHAT_QWEN2_5};
    struct chat_answer answer;
    struct chat_piece piece;
    chat_answer_init(&answer, &format, &chat, memory, sizeof memory);
    chat_answer_end(&answer);
    printf(chat_answer_next(&answer, &piece) ? "a call\n" : "no call\n");
    return 0;
}
"""


def readme_program(address):
    """The program of the library's README, with another address."""
    lines = read(os.path.join(ROOT, "tools/sdk/README.md")).splitlines()
    text = "\n".join(line[4:] for line in lines if line.startswith("    ")) + "\n"
    assert "127.0.0.1:7411" in text
    return text.replace("127.0.0.1:7411", address)


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Skip("no %s here: sh tools/setup package" % program)


def ran(*command, limit_s=HANG_S, **options):
    """Runs it to a good end; its output, and what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, **options)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


@contextlib.contextmanager
def installed(prefix="/usr"):
    """The folder below which all of it lies."""
    if BUILD != os.path.join(ROOT, "build"):
        raise Skip("a build of another mode is not installed")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(BUILD, "package.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)        # one make at a time
            ran("make", "-C", ROOT, "install", "DESTDIR=" + folder, "PREFIX=" + prefix)
        yield folder


def pages(folder, prefix="/usr"):
    for place, _, names in os.walk(folder + prefix + "/share/man"):
        yield from (os.path.join(place, name) for name in names)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_a_program_is_built_with_the_installed_library():
    needs("pkg-config", "gcc")
    with installed("/opt/agentix") as folder, Appliance() as a:
        environment = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=folder, PKG_CONFIG_PATH=os.path.join(
            folder, "opt/agentix/lib/pkgconfig"))
        words = ran("pkg-config", "--cflags", "--libs", "agentix", env=environment).split()
        source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a")
        with open(source, "w", encoding="utf-8") as file:
            file.write(readme_program(a.to))
        ran("gcc", "-Wall", "-Werror", "-o", program, source, *words)
        assert ran(program).splitlines()[-1] in ("length", "eos"), "it says why the call ended"
        with open(source, "w", encoding="utf-8") as file:
            file.write(ANSWERS)
        ran("gcc", "-Wall", "-Werror", "-o", program, source, *words)
        assert ran(program) == "no call\n"
        version = ran("pkg-config", "--modversion", "agentix", env=environment).strip()
        assert version == run("agx", "--version").stdout.split()[1]
        unit = read(folder + "/usr/lib/systemd/system/agentix.service")
        assert "ExecStart=/opt/agentix/bin/agentix " in unit, unit


def test_the_installed_configuration_serves_a_group_and_no_port():
    path = os.path.join(ROOT, "tools", "package", "agentix.ini")
    group = read("/etc/group").split(":")[0]
    done = run("agentix", "--check", "--config", path, "--set", "auth.gids=" + group)
    assert done.returncode == 0, done.stderr
    values = dict(re.findall(r"^(\w+) = ?(.*)$", read(path), re.M))
    assert values == {"unix": "/run/agentix/agentix.sock", "tcp": "", "gids": "agentix"}, values
    socket = read(os.path.join(ROOT, "tools", "systemd", "agentix.socket"))
    assert "\nListenStream=%s\n" % values["unix"] in socket, socket
    door = read(os.path.join(ROOT, "tools", "systemd", "agentix-door.socket"))
    listen = re.search(r"^  door\.listen = (\S+)", run("agentix", "--help").stdout, re.M)[1]
    assert "\nListenStream=%s\n" % listen in door, door


def test_the_manual_has_every_option_and_no_fault():
    with installed() as folder:
        text = {os.path.basename(path): read(path) for path in pages(folder)}
        assert sorted(text) == ["agentix-door.1", "agentix-protocol.7", "agentix.1",
                                "agentix.ini.5", "agx.1"], text.keys()
        keys = re.findall(r"^  (\w+)\.(\w+) = ", run("agentix", "--help").stdout, re.M)
        assert len(keys) > 100
        for section, key in keys:
            assert "\n.SH [%s]\n" % section.upper() in text["agentix.ini.5"], section
            assert "\n.TP\n\\fB%s\\fR\n" % key in text["agentix.ini.5"], key
        for option in re.findall(r"^  (--[\w-]+)", run("agentix", "--help").stdout, re.M):
            assert option.replace("-", "\\-") in text["agentix.1"], option
        for command in re.findall(r"^  (\w+)  +\w", run("agx", "help").stdout, re.M):
            assert command == "help" or "\n.SS %s\n" % command in text["agx.1"], command


def test_pages_that_the_manual_names_are_installed():
    with installed() as folder:
        docs = os.path.join(folder, "usr/share/doc/agentix")
        named = set()
        for path in pages(folder):
            text = read(path).replace("\\-", "-")
            named |= set(re.findall(r"docs/[\w-]+\.(?:md|ini)", text))
            assert "share/doc/agentix" in text, path
        assert len(named) > 5, named
        for name in named - {"docs/NAME.md"}:
            assert os.path.exists(os.path.join(docs, name)), name


def test_the_manual_is_clean_for_man_and_for_mandoc():
    needs("man", "mandoc")
    with installed() as folder:
        for path in pages(folder):
            said = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  timeout=HANG_S, env=dict(os.environ, MANWIDTH="80"), check=True)
            assert said.stderr == "", (path, said.stderr)
            ran("mandoc", "-T", "lint", "-W", "warning", path)


def completions(folder, *words):
    """What bash offers for the last of the words."""
    path = os.path.join(folder, "usr/share/bash-completion/completions", words[0])
    split = [part for word in words for part in re.split("(=)", word) if part or not word]
    script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; '
              '_${1//-/_}; printf "%s\\n" "${COMPREPLY[@]}"')
    return set(ran("bash", "-c", script, "-", path, *split).split())


def test_bash_completes_commands_options_and_values():
    with installed() as folder:
        for words, offered in (
                (("agx", "ge"), {"generate"}),
                (("agx", "--key"), {"--key-file"}),
                (("agx", "--to", "x", "generate", "--top-"), {"--top-k", "--top-p"}),
                (("agx", "generate", "--max-tokens", ""), set()),
                (("agentix", "--sel"), {"--selftest", "--selftest-minutes", "--selftest-memory",
                                        "--selftest-inject"}),
                (("agentix", "--set", "auth."), {"auth.tcp=none", "auth.tcp=psk", "auth.keys=",
                                                 "auth.uids=", "auth.gids="}),
                (("agentix", "--set", "auth.tcp=p"), {"psk"}),
                (("agentix-door", "--ch"), {"--check"})):
            assert completions(folder, *words) == offered, (words, completions(folder, *words))


def test_a_tree_without_git_has_the_version_of_its_file():
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(ROOT, "tools", "package"), folder + "/tools/package")
        said = ran("sh", folder + "/tools/package/version").split()
        assert said == read(os.path.join(ROOT, "tools", "package", "VERSION")).split(), said


@long
def test_the_package_serves_in_a_booted_container_and_is_upgraded_under_load():
    needs("dpkg-buildpackage", "dh", "lintian", "unshare", "nsenter")
    with open(os.path.join(BUILD, "package.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran("make", "-C", ROOT, "deb", limit_s=30 * HANG_S)
    whole = subprocess.run([os.path.join(ROOT, "tools", "systemd", "whole")], text=True,
                           capture_output=True, timeout=30 * HANG_S, check=False)
    print(whole.stdout)
    if whole.returncode == 2:
        raise Skip(whole.stdout.strip())
    assert whole.returncode == 0, whole.stderr
