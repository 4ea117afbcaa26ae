"""One proxy process for each module of tests, before an API server that the test plays."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters.processes import Supervisor
from fixtures.proxy.client import Proxy
from fixtures.proxy.rules import Match, Rule
from tests.proxy.wire import PATIENCE, Client, Upstream

Json = dict[str, Any]


@dataclass
class Bench:
    """The proxy between a client and an API server."""

    upstream: Upstream
    proxy: Proxy
    entries: list[Json]
    came: threading.Condition
    rules: list[str] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    # What an earlier test has left may still be on its way to the log.
    since: float = 0.0

    def client(self, instance: str = "candidate") -> Client:
        made = Client(self.proxy.listen(instance), self.proxy.authority)
        self.clients.append(made)
        return made

    def rule(self, match: Match | None = None, **rest: Any) -> str:
        name = f"rule-{len(self.rules)}"
        self.rules.append(name)
        self.proxy.add(Rule(name, match or Match(), **rest))
        return name

    def entry(self, stage: str = "ended", **matching: object) -> Json:
        """Return the last log entry of a kind, waiting for it."""

        def last() -> Json | None:
            wanted = {"stage": stage, **matching}
            found = (e for e in reversed(self.entries) if e["received"] > self.since)
            return next((e for e in found if wanted.items() <= e.items()), None)

        with self.came:
            assert self.came.wait_for(lambda: last() is not None, PATIENCE), self.entries
            entry = last()
        assert entry is not None
        return entry

    def clean(self) -> None:
        for client in self.clients:
            client.close()
        for name in self.rules:
            self.proxy.remove(name, then="drop")
        self.proxy.sync()
        self.upstream.answers = None
        while not self.upstream.requests.empty():
            self.upstream.requests.get()
        self.rules.clear()
        self.clients.clear()
        self.entries.clear()
        self.since = time.monotonic()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder: Path = tmp_path_factory.mktemp("proxy")
    entries: list[Json] = []
    came, broken = threading.Condition(), queue.SimpleQueue[str]()

    def record(entry: Json) -> None:
        with came:
            entries.append(entry)
            came.notify_all()

    with Supervisor(folder / "state") as supervisor, Upstream(folder) as upstream:
        proxy = Proxy(
            supervisor, folder / "state" / "proxy", folder / "log", server=upstream.url, authority=upstream.authority,
            record=record, broke=broken.put,
        )  # fmt: skip
        yield Bench(upstream, proxy, entries, came)
        proxy.stop()
    assert broken.empty()
    assert (folder / "log").read_text() == ""


@pytest.fixture
def bench(standing: Bench) -> Iterator[Bench]:
    yield standing
    standing.clean()


@pytest.fixture
def answering(bench: Bench) -> Callable[[bytes], None]:
    """Let the API server answer everything alike."""

    def always(raw: bytes) -> None:
        bench.upstream.answers = lambda _: raw

    return always
