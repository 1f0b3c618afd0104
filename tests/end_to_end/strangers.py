"""Those who are not of a run and can reach its ports.

strangers.py flood HOST:PORT COUNT   silent connections, and some that send a byte now and then, renewed for as long as it runs
strangers.py forge HOST:PORT...      says in the words of torchrun's store that rank 1 has failed, again and again
strangers.py crowd PID...            connects to every port at which these processes listen as soon as it is there, and sends noise
strangers.py store                   serves a store as torchrun's agent does (prints its port), and forges values in it
"""

import glob
import os
import random
import select
import socket
import struct
import sys
import threading
import time

VALIDATE = struct.pack("<BI", 0, 0x3C85F7CE)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def place(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def connect(address):
    try:
        return socket.create_connection(address, timeout=1)
    except OSError:
        return None


def flood(address, count):
    drips = b"MTFauth1" + bytes(68)  # as who knows the protocol, and not the secret
    held = {}  # connections with the number of bytes that each has sent
    while True:
        for connection, sent in list(held.items()):
            try:
                if sent < 75 and random.random() < 0.5:
                    held[connection] += connection.send(drips[sent : sent + 1])
                if not connection.recv(4096, socket.MSG_DONTWAIT):
                    raise OSError("closed")
            except BlockingIOError:
                pass
            except OSError:
                connection.close()
                del held[connection]
        for _ in range(min(100, count - len(held))):
            if connection := connect(address):
                held[connection] = 0
        time.sleep(0.05)


def forge(addresses):
    report = '{"order":0,"kind":2,"text":"forged"}'
    while True:
        for address in addresses:
            for prefix in ("", "run/"):
                if connection := connect(address):
                    try:
                        connection.sendall(VALIDATE + b"\x01" + text(prefix + "error/1") + text(report) + b"\x01" +
                                           text(prefix + "failed") + text("1"))
                    except OSError:
                        pass
                    connection.close()
        time.sleep(0.02)


def listening_ports(process):
    """Ports of 127.0.0.1 at which the process listens."""
    inodes = set()
    for entry in glob.glob(f"/proc/{process}/fd/*"):
        try:
            inodes.add(os.readlink(entry))
        except OSError:
            pass
    ports = []
    try:
        lines = open(f"/proc/{process}/net/tcp").read().splitlines()[1:]
    except OSError:
        return []
    for line in lines:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            ports.append(int(fields[1].split(":")[1], 16))
    return ports


def crowd(processes):
    held, seen = [], set()
    print("watches", *processes, flush=True)
    while True:
        for process in processes:
            for port in listening_ports(process):
                for _ in range(5):
                    if connection := connect(("127.0.0.1", port)):
                        held.append(connection)
                        try:
                            connection.send(random.choice([b"", os.urandom(48), struct.pack("<6Q", 48, 3, 0, 0, 0, 0)]))
                        except OSError:
                            pass
                if port not in seen:
                    seen.add(port)
                    print("connects to", port, flush=True)
        for connection in held[:-300]:
            connection.close()
        del held[:-300]
        time.sleep(0.0005)


class Store:
    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def forge(self):
        """What a stranger does who sees all keys: false failures, counts, and values that never come to rest."""
        report = '{"order":0,"kind":2,"text":"forged"}'.encode()
        while True:
            with self.changed:
                for key in list(self.values):
                    prefix = key.rsplit("hello/", 1)[0] if "hello/" in key else None
                    if prefix is not None:
                        self.values[prefix + "error/1"], self.values[prefix + "failed"] = report, b"1"
                        for name in ("agreed", "first/data", "gloo/2", "left/0", "left/1"):
                            self.values.setdefault(prefix + name, b"127.0.0.1:9")
                self.changed.notify_all()
            time.sleep(0.005)

    def serve(self, connection):
        file = connection.makefile("rb")

        def number(form):
            data = file.read(struct.calcsize(form))
            if not data:
                raise EOFError
            return struct.unpack(form, data)[0]

        def read_text():
            return file.read(number("<Q"))

        awaits = []
        try:
            while True:
                request = number("<B")
                if request == 0:
                    number("<I")
                elif request == 13:
                    connection.sendall(struct.pack("<I", number("<I")))
                elif request == 1:
                    key, value = read_text().decode(), read_text()
                    with self.changed:
                        self.values[key] = value
                        self.changed.notify_all()
                elif request == 3:
                    with self.changed:
                        connection.sendall(text(self.values.get(read_text().decode(), b"")))
                elif request == 4:
                    key, amount = read_text().decode(), number("<q")
                    with self.changed:
                        # A stranger counts, too.
                        total = int(self.values.get(key, 1 if "rank/" in key else 0)) + amount
                        self.values[key] = str(total).encode()
                        self.changed.notify_all()
                    connection.sendall(struct.pack("<q", total))
                elif request == 5:
                    keys = [read_text().decode() for _ in range(number("<Q"))]
                    with self.changed:
                        connection.sendall(b"\0" if all(key in self.values for key in keys) else b"\1")
                elif request == 6:
                    awaits = [read_text().decode() for _ in range(number("<Q"))]
                    while awaits and not select.select([connection], [], [], 0.002)[0]:
                        with self.changed:
                            if all(key in self.values for key in awaits):
                                connection.sendall(b"\0")
                                awaits = []
                elif request == 12:
                    awaits = []
                    connection.sendall(b"\1")
                else:
                    return
        except (EOFError, OSError, struct.error):
            connection.close()


def serve_store():
    store, server = Store(), socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    threading.Thread(target=store.forge, daemon=True).start()
    while True:
        threading.Thread(target=store.serve, args=(server.accept()[0],), daemon=True).start()


command, *words = sys.argv[1:]
if command == "flood":
    flood(place(words[0]), int(words[1]))
elif command == "forge":
    forge([place(word) for word in words])
elif command == "crowd":
    crowd(words)
elif command == "store":
    serve_store()
else:
    sys.exit(__doc__)
