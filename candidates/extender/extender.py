"""An HTTP extender of kube-scheduler: GPU Pods run only on nodes that carry a label, and it binds Pods.

Served verbs, each below a path of its own so that a configuration can name them apart:

    /network/filter, /network/prioritize, /network/preempt   the hard condition: nodes with `--label`
    /locality/filter                                          a wish: nodes with `--wish`, where there are any
    /bind                                                     one binding request to the API server for each call

Node names come in (`nodeCacheCapable: true`) and are compared with what the API server says at that moment: a cache of
its own could be older than the change that has woken the Pod. Needs the standard library alone.
"""

import argparse
import base64
import http.client
import json
import ssl
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

Json = dict[str, Any]
# What a Pod is told of a node that is refused.
REFUSED = "node(s) are not on the high-speed network"
# Score of a node that suits; of the others it is 0.
MOST_SCORE = 10
# Seconds for the API server to answer.
PATIENCE = 30.0
NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiRefused(Exception):
    """The API server answered something else than success."""


class Api:
    """The API server, as the identity of one kubeconfig. One connection for reading is kept; not thread-safe."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())  # JSON, as the suite writes it
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._address, self._tls = urlsplit(cluster["server"]).netloc, ssl.create_default_context(cadata=authority)
        self._token = config["users"][0]["user"]["token"]
        self._kept: http.client.HTTPSConnection | None = None

    def labelled(self, label: str) -> set[str]:
        """Return the names of the nodes that carry `key=value` now."""
        path = f"/api/v1/nodes?labelSelector={quote(label)}"
        try:
            found = self._send(self._kept or self._connection(), "GET", path)
        except (OSError, http.client.HTTPException):
            if self._kept is None:
                raise
            found = self._send(self._connection(), "GET", path)  # the API server had closed the one that was kept
        return {node["metadata"]["name"] for node in found["items"] or []}

    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind a Pod, by one request that is never repeated."""
        self._kept = None
        metadata = {"namespace": namespace, "name": name, "uid": uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        self._send(self._connection(), "POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, timeout=PATIENCE, context=self._tls)

    def _send(self, connection: http.client.HTTPSConnection, method: str, path: str, body: Json | None = None) -> Json:
        self._kept = None
        headers = {
            "Authorization": f"Bearer {self._token}", "Accept": f"{NAMES_ONLY},application/json",
            "Content-Type": "application/json",
        }  # fmt: skip
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said: Json = json.loads(answer.read() or b"{}")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiRefused(said.get("message") or f"{method} {path}: {answer.status}")
        self._kept = connection
        return said


class Extender(BaseHTTPRequestHandler):
    """One connection of the scheduler. `options` is set before the first."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer are written apart: without this each would wait for the other's acknowledgement.
    disable_nagle_algorithm = True
    options: argparse.Namespace

    def setup(self) -> None:
        """Make ready for a connection."""
        super().setup()
        self._api = Api(self.options.kubeconfig)

    def do_GET(self) -> None:
        """Say that it is there."""
        self._answer(HTTPStatus.OK, {})

    def do_POST(self) -> None:
        """Answer one call of the scheduler."""
        verbs: dict[str, Callable[[Json], Json | list[Json]]] = {
            "/network/filter": self._filter, "/network/prioritize": self._prioritize, "/network/preempt": self._preempt,
            "/locality/filter": self._prefer, "/bind": self._bind,
        }  # fmt: skip
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        verb = verbs.get(self.path)
        if verb is None:
            self._answer(HTTPStatus.NOT_FOUND, {})
            return
        try:
            said = verb({key.lower(): value for key, value in json.loads(asked).items()})
        except (ApiRefused, OSError, http.client.HTTPException, ValueError) as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"Error": f"{self.path}: {error}"})
        else:
            self._answer(HTTPStatus.OK, said)

    def _filter(self, asked: Json) -> Json:
        """Let those nodes pass that are on the network."""
        names, there = asked["nodenames"] or [], self._api.labelled(self.options.label)
        return {
            "NodeNames": [name for name in names if name in there],
            "FailedAndUnresolvableNodes": {name: REFUSED for name in names if name not in there},
        }

    def _prioritize(self, asked: Json) -> list[Json]:
        """Give those nodes points that are on the network."""
        there = self._api.labelled(self.options.label)
        return [{"Host": name, "Score": MOST_SCORE * (name in there)} for name in asked["nodenames"] or []]

    def _preempt(self, asked: Json) -> Json:
        """Let nobody be evicted from a node that the Pod may not use anyway."""
        victims, there = asked["nodenametometavictims"] or {}, self._api.labelled(self.options.label)
        return {"NodeNameToMetaVictims": {name: each for name, each in victims.items() if name in there}}

    def _prefer(self, asked: Json) -> Json:
        """Let the nodes pass that suit best; all of them where none does."""
        names, there = asked["nodenames"] or [], self._api.labelled(self.options.wish)
        return {"NodeNames": [name for name in names if name in there] or names}

    def _bind(self, asked: Json) -> Json:
        """Bind a Pod; what the API server says against it is the answer."""
        try:
            self._api.bind(asked["podnamespace"], asked["podname"], asked["poduid"], asked["node"])
        except (ApiRefused, OSError, http.client.HTTPException, ValueError) as error:
            return {"Error": f"the extender could not bind the Pod: {error}"}
        return {"Error": ""}

    def _answer(self, status: HTTPStatus, said: Json | list[Json]) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log what failed; the rest is in the audit log."""
        if code != HTTPStatus.OK:
            super().log_request(code, size)


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--label", required=True, help="key=value that a node of the network carries")
    parser.add_argument("--wish", required=True, help="key=value that a node with local data carries")
    Extender.options = parser.parse_args()
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer(("127.0.0.1", Extender.options.port), Extender).serve_forever()


if __name__ == "__main__":
    main()
