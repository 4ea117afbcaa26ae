"""Both ends of the proxy, byte by byte: an API server that the test plays, and connections to the proxy."""

import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from clusters.local.pki import Authority

LOOPBACK = "127.0.0.1"
# Seconds until a test fails that waits for something which never comes.
PATIENCE = 5.0
END = b"\r\n\r\n"


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*parts: bytes) -> bytes:
    """Return the head of a chunked answer and some chunks, without an end."""
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(map(chunk, parts))


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(part), part)


def ask(method: str = "GET", target: str = "/api/v1/nodes", body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: api", *headers]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def bind(name: str = "pod", namespace: str = "ns") -> bytes:
    return ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", b'{"target":{"name":"node"}}')


def watch(resource: str = "pods", query: str = "&resourceVersion=5") -> bytes:
    return ask("GET", f"/api/v1/{resource}?watch=true{query}")


@dataclass
class Arrived:
    """One request at the API server; the test answers it."""

    raw: bytes
    connection: ssl.SSLSocket
    # Set once the client has closed the connection or gone on to its next request.
    over: threading.Event = field(default_factory=threading.Event)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def close(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class Upstream:
    """The API server. With `answers` set it answers by itself."""

    def __init__(self, folder: Path) -> None:
        made = Authority(folder, "upstream-ca")
        pair = made.issue("upstream", "upstream", serves=True)
        self.authority = made.cert.read_bytes()
        self.answers: Callable[[bytes], bytes] | None = None
        self.requests: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self.connections = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert, pair.key)
        self._door = socket.create_server((LOOPBACK, 0))
        self.url = f"https://{LOOPBACK}:{self._door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def next(self) -> Arrived:
        return self.requests.get(timeout=PATIENCE)

    def nothing_came(self) -> bool:
        """Whether there is no request; what was sent before this was asked has had its time only after a fence."""
        return self.requests.empty()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        last: Arrived | None = None
        with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as connection:
            self.connections += 1
            try:
                while raw := _message(connection):
                    if last:
                        last.over.set()
                    last = Arrived(raw, connection)
                    self.requests.put(last)
                    if self.answers:
                        connection.sendall(self.answers(raw))
            finally:
                if last:
                    last.over.set()


def _message(connection: ssl.SSLSocket) -> bytes:
    raw = b""
    while END not in raw:
        if not (data := connection.recv(65536)):
            return b""
        raw += data
    head, _, _ = raw.partition(END)
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        # Good enough here: no chunk of a test holds this.
        while not raw.endswith(b"\r\n0\r\n\r\n"):
            raw += connection.recv(65536)
        return raw
    length = next((int(line.split(b":")[1]) for line in lower.split(b"\r\n") if line.startswith(b"content-length")), 0)
    while len(raw) < len(head) + len(END) + length:
        raw += connection.recv(65536)
    return raw


class Client:
    """A connection to the proxy. TLS by hand: an SSLSocket cannot tell a reset from an end."""

    def __init__(self, url: str, authority: bytes) -> None:
        host, port = url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cadata=authority.decode())
        self._plain = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self._in, self._out, self._read = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._plain.sendall(self._out.read())
                self._in.write(self._plain.recv(65536))
        self._plain.sendall(self._out.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.send_raw(self.sealed(data))

    def sealed(self, data: bytes) -> bytes:
        """Return what is on the wire for some bytes: once TLS has seen an end it seals no more."""
        self._tls.write(data)
        return self._out.read()

    def send_raw(self, data: bytes) -> None:
        self._plain.sendall(data)

    def read(self, size: int) -> bytes:
        """Read exactly so many bytes."""
        while len(self._read) < size:
            data = self._some()
            assert data, f"the connection ended after {self._read!r}"
            self._read += data
        found, self._read = self._read[:size], self._read[size:]
        return found

    def read_answer(self) -> tuple[bytes, bytes]:
        """Return head and body of an answer with a Content-Length."""
        head = b""
        while not head.endswith(END):
            head += self.read(1)
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        return head, self.read(length)

    def status(self) -> int:
        head, _ = self.read_answer()
        return int(head.split(b" ")[1])

    def ends(self) -> str:
        """Say how the connection ends: by the book, by the end of its half without a word, or by a reset."""
        try:
            while self._some():
                pass
        except ssl.SSLEOFError:
            return "half-closed"
        except ConnectionResetError:
            return "reset"
        return "closed"

    def silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for a while."""
        self._plain.settimeout(seconds)
        try:
            self._read += self._some()
        except TimeoutError:
            return True
        finally:
            self._plain.settimeout(PATIENCE)
        return False

    def close(self) -> None:
        """End it as a program does that ends: without another word."""
        self._plain.close()

    def die(self) -> None:
        """End it with a reset."""
        self._plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._plain.close()

    def _some(self) -> bytes:
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                if data := self._plain.recv(65536):
                    self._in.write(data)
                else:
                    self._in.write_eof()
