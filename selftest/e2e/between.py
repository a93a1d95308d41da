# SPDX-License-Identifier: MIT
"""What stands between a client and an appliance, and can hold frames of the appliance back: so a
test decides what has crossed what on its way."""
import socket
import threading

HEADER_BYTES = 16


class Between:
    """`with Between(a) as between:` takes connections at between.to and passes all on."""

    def __init__(self, appliance):
        self.at = appliance.tcp
        self.held, self.changed, self.ends = frozenset(), threading.Condition(), []

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.to = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.hold()
        for end in [self.listener, *self.ends]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass                        # it has gone already
            end.close()

    def hold(self, *kinds):
        """From now on the first frame of such a kind, and all behind it, wait here."""
        with self.changed:
            self.held = frozenset(kinds)
            self.changed.notify_all()

    def _accept(self):
        try:
            while True:
                client = self.listener.accept()[0]
                appliance = socket.create_connection(self.at)
                self.ends += [client, appliance]
                for passes, ends in ((self._pass_bytes, (client, appliance)),
                                     (self._pass_frames, (appliance, client))):
                    threading.Thread(target=self._pass, args=(passes, *ends), daemon=True).start()
        except OSError:
            pass                            # the test is over

    @staticmethod
    def _pass(passes, source, target):
        try:
            passes(source, target)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass                            # one of both has gone

    @staticmethod
    def _pass_bytes(source, target):
        while data := source.recv(1 << 16):
            target.sendall(data)

    def _pass_frames(self, source, target):
        with source.makefile("rb") as frames:
            while head := frames.read(HEADER_BYTES):
                data = head + frames.read(int.from_bytes(head[8:12], "little"))
                with self.changed:
                    self.changed.wait_for(lambda: head[4] not in self.held)
                target.sendall(data)
