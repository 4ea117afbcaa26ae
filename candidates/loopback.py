"""HTTP to a port of a process that we started ourselves."""

import hashlib
import socket
import ssl

import psutil
import urllib3

HOST = "127.0.0.1"

# Seconds. A frozen process must not freeze the suite.
TIMEOUT = 5.0
# What a candidate answers is untrusted: no more than this is read. 10,000 Pods make about 1 MiB of metrics.
MOST_BYTES = 64 * 1024 * 1024


class Unreachable(Exception):
    """No usable answer: refused, reset, timed out, too long, or another certificate than at first."""


class Loopback:
    """One port on the loopback interface. Thread-safe; connections are kept.

    Certificates of candidates are self-signed and made anew at each start, so there is no authority to check them
    against. What is checked instead: the port belongs to the process that we started (`listens`), and every connection
    shows the certificate of the first, so a token never goes to somebody who took the port over.
    """

    def __init__(self, scheme: str, port: int) -> None:
        self._scheme, self._port = scheme, port
        self._pool: urllib3.HTTPConnectionPool | None = None

    def get(self, path: str, token: str | None = None) -> tuple[int, bytes]:
        """Return status and body.

        Raises:
            Unreachable: there was no usable answer.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._pool = self._pool or self._connect()
            answer = self._pool.request("GET", path, headers=headers, preload_content=False, redirect=False)
            body = answer.read(MOST_BYTES + 1)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{self._scheme}://{HOST}:{self._port}{path}: {error}") from error
        if len(body) > MOST_BYTES:
            answer.close()
            raise Unreachable(f"{self._scheme}://{HOST}:{self._port}{path}: more than {MOST_BYTES} bytes")
        answer.release_conn()
        return answer.status, body

    def _connect(self) -> urllib3.HTTPConnectionPool:
        timeout = urllib3.Timeout(TIMEOUT)
        if self._scheme == "http":
            return urllib3.HTTPConnectionPool(HOST, self._port, timeout=timeout, retries=False, maxsize=2)
        shown = ssl.get_server_certificate((HOST, self._port), timeout=TIMEOUT)
        pin = hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()
        # One of our own: urllib3 would load the machine's authorities for each connection, which costs 10 ms each.
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        return urllib3.HTTPSConnectionPool(
            HOST, self._port, timeout=timeout, retries=False, maxsize=2,
            ssl_context=unchecked, assert_hostname=False, assert_fingerprint=pin,
        )  # fmt: skip


def listens(pid: int, port: int) -> bool:
    """Whether the process, or one of its children, listens on the port."""
    try:
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            for connection in process.net_connections("tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return True
    except psutil.Error:
        pass  # it just ended
    return False


def is_free(port: int) -> bool:
    """Whether nobody listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # old connections do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
