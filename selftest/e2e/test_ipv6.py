# SPDX-License-Identifier: MIT
"""IPv6, in a network of the test's own: both ports, and limits of a source, which is the first half
of an address."""
import os
import shutil
import socket
import subprocess

from appliance import HANG_S, NOISE, Appliance, TextFile, run, wait_for
from boxes import become_root_of_a_network, ip
from frames import STATUSES
from protocol import ERROR, WELCOME, Client, hello, unpack
from skip import Skip

PROMPT = list(range(3, 40))
SECRET = "ab" * 32
KEY = (b"six".ljust(32, b"\0"), bytes.fromhex(SECRET))
HOUSES = ["fd00:0:0:%d::" % number for number in range(4)]      # the machine's own, and three more
SERVER = HOUSES[0] + "1"


def furnish():
    """A network with loopback, and 12 addresses in each house; this process stays in it."""
    if shutil.which("ip") is None:
        raise Skip("needs ip, of Debian's iproute2")
    try:
        become_root_of_a_network()
    except OSError as error:
        raise Skip("this kernel gives a user no network namespace: " + str(error.strerror))
    ip("link", "set", "lo", "up")
    try:
        for house in HOUSES:
            for host in range(1, 13):
                ip("address", "add", "%s%x/128" % (house, host), "dev", "lo", "nodad")
    except subprocess.CalledProcessError as error:
        raise Skip("no IPv6 here: " + error.stderr.decode().strip())


def to(address):
    return "[%s]:%d" % address


# ---- loopback ------------------------------------------------------------------------------------

def test_both_ports_serve_on_ipv6_as_on_ipv4():
    furnish()
    with Appliance(NOISE) as a, Client(a.tcp) as c:
        tokens = c.generate(1, PROMPT, max_tokens=50).check().tokens
    with Appliance(NOISE, "net.tcp=[::1]:0", "text.listen=[::1]:0") as a, Client(a.tcp) as c:
        assert a.tcp[0] == a.text_address[0] == "::1"
        assert c.generate(1, PROMPT, max_tokens=50).check().tokens == tokens
        assert a.health().startswith("ready")
        assert a.text("connections").splitlines()[1].split()[5] == "0:0:0:0:0:0:0:1"
        environment = dict(os.environ, AGX_TEXT=to(a.text_address))
        assert run("agx", "--to", to(a.tcp), "ping").returncode == 0
        done = run("agx", "ask", "health", env=environment)
        assert done.returncode == 0 and done.stdout.startswith("ready"), done


# ---- net.tcp -------------------------------------------------------------------------------------

def keyed(path, *settings):
    return Appliance(NOISE, "auth.tcp=psk", "auth.keys=" + path, *settings)


def knock(a, source, server=SERVER):
    """Says HELLO from this address and no more; the client, and what came: WELCOME or ERROR."""
    c = Client((server, a.tcp[1]), greet=False, source=source)
    c.send(hello())
    kind, payload = c.receive()
    c.welcome = unpack(kind, payload)[0]
    return c, kind, c.welcome


def test_preauth_places_of_an_address_are_those_of_its_first_half():
    furnish()
    with TextFile("six %s\n" % SECRET, 0o600) as path, \
            keyed(path, "net.tcp=[%s]:0" % SERVER, "net.preauth=8",
                  "net.preauth_per_address=2") as a:
        held = [knock(a, HOUSES[1] + host) for host in ("1", "2")]
        assert [kind for _, kind, _ in held] == [WELCOME, WELCOME]
        _, kind, error = knock(a, HOUSES[1] + "3")
        assert kind == ERROR and STATUSES[error["status"]][0] == "BUSY_PREAUTH", error
        assert error["found"] == error["max"] == 2, error
        others = [knock(a, HOUSES[2] + host) for host in ("1", "2")]
        assert [kind for _, kind, _ in others] == [WELCOME, WELCOME]
        held[0][0].authenticate(KEY)
        held.append(knock(a, HOUSES[1] + "3"))          # it has left its place to this one
        assert held[-1][1] == WELCOME
        held[0][0].generate(1, PROMPT).check()
        for c, _, _ in held + others:
            c.close()


def test_a_listener_for_both_families_counts_ipv4_addresses_whole():
    """They come as ::ffff:A.B.C.D, whose first half is the same for all."""
    furnish()
    for last in (1, 2, 3):
        ip("address", "add", "10.6.0.%d/32" % last, "dev", "lo")
    with TextFile("six %s\n" % SECRET, 0o600) as path, \
            keyed(path, "net.tcp=[::]:0", "net.preauth=8", "net.preauth_per_address=1") as a:
        held = [knock(a, "10.6.0.%d" % last, "10.6.0.1") for last in (2, 3)]
        held.append(knock(a, HOUSES[1] + "1"))
        assert [kind for _, kind, _ in held] == [WELCOME] * 3
        _, kind, error = knock(a, "10.6.0.2", "10.6.0.1")
        assert kind == ERROR and error["found"] == error["max"] == 1, error
        for c, _, _ in held:
            c.close()


# ---- the text port -------------------------------------------------------------------------------

PLACES = 8


def connect_text(a, source):
    return socket.create_connection(a.text_address, timeout=HANG_S, source_address=(source, 0))


def answers(s):
    """True when this connection still gets the answer to a question."""
    answer = b""
    try:
        s.sendall(b"health\n")
        while not answer.endswith((b"end\n", b"end\r\n")):
            got = s.recv(1000)
            if not got:
                return False
            answer += got
    except ConnectionError:
        return False
    return answer.startswith((b"ready", b"degraded"))


def test_no_house_takes_the_text_ports_places_from_another():
    furnish()
    with Appliance(NOISE, "text.listen=[%s]:0" % SERVER,
                   "text.peers=%s/64, %s/64, %s/128" % (HOUSES[1], HOUSES[2], SERVER)) as a:
        first = [connect_text(a, "%s%x" % (HOUSES[1], host)) for host in range(1, 1 + PLACES)]
        assert all([answers(s) for s in first])
        second = []
        for host in range(1, 1 + PLACES // 2):          # at once, and all keep what they get
            second.append(connect_text(a, "%s%x" % (HOUSES[2], host)))
            assert answers(second[-1])
        kept = [answers(s) for s in first]
        assert sum(kept) == PLACES // 2, kept
        for host in range(1, 13):
            connect_text(a, "%s%x" % (HOUSES[1], host)).close()
        assert all([answers(s) for s in second])
        with connect_text(a, HOUSES[3] + "1") as stranger:
            assert not answers(stranger)
        for s in first + second:
            s.close()
        wait_for(lambda: a.health().startswith("ready"), "it has room for the machine itself")
