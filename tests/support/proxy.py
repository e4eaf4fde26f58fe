"""A TCP proxy that misbehaves on request.

    proxy = Proxy(("127.0.0.1", port))      # or Proxy("/path/of/a/socket")
    connect to proxy.port, then at any time:
    proxy.hold("down")       answers stop flowing, nothing is closed
    proxy.release()          and flow again, late
    proxy.delay = 0.2        every piece waits that long, and a new connection twice: a round trip
    proxy.trips              round trips so far, a connection being one: how often somebody had to
                             wait for the other side before it could say the next thing
    proxy.cut_after("down", n)   after n more bytes that way, reset the connection
    proxy.cut()              reset all connections now
    proxy.strand()           nothing passes any more on what is open; new connections are sound
    proxy.strand(-1)         the same for the newest connection alone
    proxy.half_close()       the server seems to have ended its side
    proxy.refusing = True    new connections are reset at once
    proxy.black_hole = True  new connections are taken, and nothing happens on them

"up" is towards the server, "down" towards the client.
"""

import ctypes
import select
import socket
import struct
import threading
import time

_PIECE = 65536
_libc = ctypes.CDLL(None, use_errno=True)


def _reset(sock):
    """Close with RST, so that the other side sees an error at once.

    close() alone would wait for the pump, which may sit in select() on the same
    socket; connecting to nowhere resets it now.
    """
    nowhere = struct.pack("H14x", socket.AF_UNSPEC)
    _libc.connect(sock.fileno(), nowhere, len(nowhere))
    sock.close()


class _Pair:
    """One client and its server."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.peer = client.getpeername()[1]
        self.server = None
        self.dead = self.stranded = False
        self.last = "down"  # the way of the last piece

    def run(self):
        try:
            self.proxy.count_trip()
            time.sleep(2 * self.proxy.delay)
            while self.proxy.black_hole and not self.dead:
                time.sleep(0.005)
            if self.dead:
                return
            self.server = self.proxy.dial()
            for source, sink, way in ((self.client, self.server, "up"),
                                      (self.server, self.client, "down")):
                threading.Thread(target=self.pump, args=(source, sink, way), daemon=True).start()
        except OSError:
            self.cut()

    def pump(self, source, sink, way):
        proxy = self.proxy
        try:
            while not self.dead:
                if not select.select([source], [], [], 0.02)[0]:
                    continue
                data = source.recv(_PIECE)
                if proxy.delay:
                    time.sleep(proxy.delay)
                while (way in proxy.held or self.stranded) and not self.dead:
                    time.sleep(0.002)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                data, last = proxy.spend(way, data)
                proxy.count(way, len(data))  # before: whoever has the answer sees it counted
                if way == "up" and self.last == "down":
                    proxy.count_trip()
                self.last = way
                sink.sendall(data)
                if last:
                    self.cut()
                    return
        except (OSError, ValueError):
            self.cut()

    def cut(self):
        self.dead = True
        for sock in (self.client, self.server):
            if sock:
                _reset(sock)


class Proxy:
    def __init__(self, target):
        self.target = target
        self.delay = 0.0
        self.held = set()
        self.refusing = False
        self.black_hole = False
        self.passed = {"up": 0, "down": 0}  # bytes, and how often some came
        self.pieces = {"up": 0, "down": 0}
        self.trips = 0
        self._budget = {}
        self._pairs = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def dial(self):
        if isinstance(self.target, str):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.target)
        else:
            sock = socket.create_connection(self.target)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                _reset(client)
                continue
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = _Pair(self, client)
            except OSError:
                client.close()  # it was gone before it was here
                continue
            with self._lock:
                self._pairs.append(pair)
            threading.Thread(target=pair.run, daemon=True).start()

    def count(self, way, n):
        with self._lock:
            self.passed[way] += n
            self.pieces[way] += 1

    def count_trip(self):
        with self._lock:
            self.trips += 1

    def spend(self, way, data):
        """What may still pass, and whether the connection ends behind it."""
        with self._lock:
            if way not in self._budget:
                return data, False
            left = self._budget[way]
            if len(data) < left:
                self._budget[way] = left - len(data)
                return data, False
            del self._budget[way]
            return data[:left], True

    def hold(self, *ways):
        self.held.update(ways)

    def release(self):
        self.held.clear()

    def cut_after(self, way, n):
        with self._lock:
            self._budget[way] = n

    def strand(self, which=None):
        with self._lock:
            for pair in self._pairs if which is None else [self._pairs[which]]:
                pair.stranded = True

    def cut(self):
        with self._lock:
            pairs, self._pairs = self._pairs, []
        ports = {pair.peer for pair in pairs}
        for pair in pairs:
            pair.cut()
        # On a busy machine the reset is delivered a little later: wait for it.
        end = time.monotonic() + 10
        while ports & self._established() and time.monotonic() < end:
            time.sleep(0.001)

    def _established(self):
        """Ports of clients that still believe in their connection to this proxy."""
        ports = set()
        with open("/proc/net/tcp") as table:
            for line in table.readlines()[1:]:
                _, local, remote, state = line.split()[:4]
                if state == "01" and int(remote.split(":")[1], 16) == self.port:
                    ports.add(int(local.split(":")[1], 16))
        return ports

    def half_close(self):
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            try:
                pair.client.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self):
        self._closed = True
        self._listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
