"""A scheduler extender of a team that asks the real one, and breaks one promise with `--fault NAME`.

It stands between kube-scheduler and the dependency, as part of the candidate: what it makes of a failed answer is what
the candidate does. Without a fault it passes on what it gets. It shares no code with the suite.
"""

import argparse
import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Seconds for the dependency to answer; kube-scheduler waits longer.
PATIENCE = 1.0
OPTIONS = argparse.Namespace()
# Pods that have met an error once, by UID.
GIVEN_UP: set[str] = set()


def broken(name: str) -> bool:
    """Whether this promise is to be broken."""
    return bool(OPTIONS.fault == name)


def with_nodes(answer: bytes, nodes: dict[str, Any]) -> bytes:
    """Put whole nodes in place of names, for a scheduler that asks with whole nodes and takes whatever it gets."""
    try:
        said = json.loads(answer)
    except ValueError:
        return answer
    names = said.pop("NodeNames", None) or []
    known = [name for name in names if name in nodes or broken("takes-any-node")]
    return json.dumps(
        said | {"Nodes": {"items": [nodes.get(name, {"metadata": {"name": name}}) for name in known]}}
    ).encode()


class Shim(BaseHTTPRequestHandler):
    """One connection of the scheduler."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(200, b"{}")

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        args = {key.lower(): value for key, value in json.loads(asked).items()}
        pod = args.get("pod", {}).get("metadata", {}).get("uid", "")
        if pod in GIVEN_UP:
            self._answer(200, json.dumps({"NodeNames": []}).encode())
            return
        everything = json.dumps({"NodeNames": args.get("nodenames")}).encode()
        nodes = {node["metadata"]["name"]: node for node in (args.get("nodes") or {}).get("items", [])}
        if nodes:
            asked = json.dumps({"Pod": args["pod"], "NodeNames": list(nodes)}).encode()
        try:
            status, answer = self._asked(asked)
        except (OSError, http.client.HTTPException):
            status, answer = 503, b"{}"
        if status != 200:
            if broken("fail-open"):
                status, answer = 200, everything
            if broken("no-retry-after-error"):
                GIVEN_UP.add(pod)
        elif broken("fail-open-on-garbage"):
            try:
                json.loads(answer)
            except ValueError:
                answer = everything
        if nodes and status == 200:
            answer = with_nodes(answer, nodes)
        self._answer(status, answer)

    def _asked(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(OPTIONS.ask, timeout=PATIENCE)
        try:
            connection.request("POST", self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ask", required=True, help="host:port of the dependency")
    parser.add_argument("--fault", default="")
    parser.parse_args(namespace=OPTIONS)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer(("127.0.0.1", OPTIONS.port), Shim).serve_forever()


if __name__ == "__main__":
    main()
