"""A stand-in for a scheduler: answers on a port what it was given and what it is asked."""

import http.server
import json
import os
import signal
import ssl
import sys
from pathlib import Path
from typing import Any


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, body = {
            "/readyz": (200, "ok"),
            "/metrics": (200, f"who {self.headers['Authorization']}\n"),
            "/configz": (200, json.dumps({"componentconfig": {"argv": sys.argv, "env": dict(os.environ)}})),
            "/garbage": (200, "[not json"),
        }.get(self.path, (403, "no"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        pass


def main(port: str, *options: str) -> None:
    sys.stdout.write("first words\n")
    sys.stdout.flush()
    if "broken" in options:
        sys.exit("cannot do <this>")
    if "stubborn" in options:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Answers)
    if certificate := next((option for option in options if Path(option).is_file()), None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main(*sys.argv[1:])
