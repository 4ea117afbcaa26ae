"""The picture of one scenario: which lanes, segments and marks to draw where. The template only writes them down.

Everything here is a pure function of the lines of `history/<scenario>.jsonl`. Coordinates are SVG user units.
"""

import json
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from reports.record import Step, Witness, clean

Json = dict[str, Any]

WIDTH: Final = 1000.0
LEFT: Final = 168.0
RIGHT: Final = 14.0
LANE: Final = 22.0
PLOT: Final = 62.0
HEAD: Final = 20.0
# What a picture shows at most. What is left out is said under it, and stands in the history.
PODS: Final = 24
NODES: Final = 8
OTHERS: Final = 4
SERIES: Final = 5
EVENTS: Final = 15
LETTER: Final = 6.1  # width of a letter in a lane
OWN: Final = 2  # metrics beside those of PLOTS
PLOTS: Final = {
    "scheduler_pending_pods": ("Pending Pods", "queue"),
    "scheduler_schedule_attempts_total": ("Attempts", "result"),
}
HISTOGRAM: Final = ("_bucket", "_sum", "_count", "_created")
BINDINGS: Final = {("pods", "binding"), ("bindings", "")}
STARTING: Final = "node.kubernetes.io/not-ready"


@dataclass(frozen=True)
class Segment:
    """A state that lasted. `kind` names its colours."""

    x: float
    width: float
    kind: str
    label: str
    title: str
    indent: float = 4.0
    """Of the label, past a mark at the start."""


@dataclass(frozen=True)
class Mark:
    """Something that happened at one time."""

    x: float
    kind: str
    title: str
    label: str = ""
    small: bool = False
    """Drawn at the upper edge, to leave the state under it legible."""


@dataclass(frozen=True)
class Lane:
    """One Pod, node, user or process."""

    name: str
    title: str
    segments: Sequence[Segment] = ()
    marks: Sequence[Mark] = ()
    y: float = 0.0

    @property
    def short(self) -> str:
        """The name as far as there is room for it; of a long one the end is the telling part."""
        return _fit(self.name, LEFT - 8)


@dataclass(frozen=True)
class Group:
    """Lanes of one sort."""

    name: str
    y: float
    lanes: Sequence[Lane]


@dataclass(frozen=True)
class Band:
    """A fault while it stood (or a gap in the history), shaded across all lanes; solid from its first witness on."""

    x: float
    width: float
    solid_x: float
    solid_width: float
    kind: str
    label: str
    title: str
    y: float = 0.0


@dataclass(frozen=True)
class Stop:
    """One step, or several too close to tell apart."""

    x: float
    number: str
    label: str
    title: str


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    label: str
    path: str
    index: int


@dataclass(frozen=True)
class Plot:
    """A metric over time, as steps between scrapes."""

    name: str
    title: str
    y: float
    series: Sequence[Series]
    top: str
    low: str


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event, counted."""

    t: float
    about: str
    reason: str
    message: str
    count: int


@dataclass
class Picture:
    """Everything the template needs for one scenario."""

    height: float = 0.0
    bottom: float = 0.0
    ticks: list[tuple[float, str]] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summary: str = ""


def lines(path: Path) -> Iterator[Json]:
    """Yield the entries of a history file; a last line that a crash cut off is left out.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                return
            yield entry


def draw(history: Iterable[Json], steps: Sequence[Step] = (), witnesses: Sequence[Witness] = ()) -> Picture:
    """Lay out the picture of a history; `steps` (numbered) and `witnesses` are those of the record."""
    return _Layout(list(history), steps, witnesses).picture()


class _Layout:
    def __init__(self, entries: list[Json], steps: Sequence[Step], witnesses: Sequence[Witness]) -> None:
        self.entries, self.witnesses = entries, witnesses
        self.steps = [step for step in steps if step.at is not None]
        told = [step.at or 0.0 for step in self.steps]
        # What is cleared away after the last step is no part of the story.
        self.told: float = max(told, default=float("inf"))
        times = [entry["t"] for entry in entries] + told
        self.end: float = max([*times, 0.1]) * 1.01
        shown = told + [entry["t"] for entry in entries if entry["kind"] == "fault" or _made(entry)]
        self.begin: float = max(0.0, 1.03 * min([*shown, self.end / 2]) - 0.03 * self.end)
        self.epoch = _seconds(entries[0]["wall"]) - entries[0]["t"] if entries else 0.0
        self.notes: list[str] = []
        self.requests = sorted(self._requests())

    def x(self, t: float) -> float:
        share = (min(max(t, self.begin), self.end) - self.begin) / (self.end - self.begin)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def of(self, kind: str) -> Iterator[Json]:
        return (entry for entry in self.entries if entry["kind"] == kind)

    def picture(self) -> Picture:
        """Place one thing under another, from the steps down to the axis."""
        drawn = Picture(stops=self._stops(), events=self._events())
        y = HEAD + 4
        for band in self._bands():
            drawn.bands.append(replace(band, y=y))
            y += 18
        for name, lanes in (
            ("Pods", self._pods()),
            ("Nodes", self._nodes()),
            ("Binding requests", self._users()),
            ("Met by the fault proxy", self._met()),
            ("Processes", self._processes()),
        ):
            if lanes:
                placed = [replace(lane, y=y + 16 + LANE * row) for row, lane in enumerate(lanes)]
                drawn.groups.append(Group(name, y, placed))
                y += 20 + LANE * len(lanes)
        for plot in self._plots():
            drawn.plots.append(replace(plot, y=y + 8))
            y += PLOT + 14
        drawn.bottom = y + 4
        drawn.height = y + 24
        drawn.ticks = self._ticks()
        seen = dict.fromkeys(
            segment.kind for group in drawn.groups for lane in group.lanes for segment in lane.segments
        )
        marks = dict.fromkeys(mark.kind for group in drawn.groups for lane in group.lanes for mark in lane.marks)
        drawn.kinds = [*seen, *marks]
        drawn.notes = self.notes
        lanes_drawn = ", ".join(f"{len(group.lanes)} {group.name.lower()}" for group in drawn.groups)
        drawn.summary = f"{self.end:.1f} seconds with {lanes_drawn or 'nothing recorded'}"
        return drawn

    def _ticks(self) -> list[tuple[float, str]]:
        raw = (self.end - self.begin) / 10
        power = 10.0 ** (len(str(int(raw))) - 1 if raw >= 1 else -len(f"{1 / raw:.0f}"))
        step = next(power * factor for factor in (1, 2, 5, 10, 20, 50, 100) if power * factor >= raw)
        digits = 0 if step >= 1 else len(f"{step:.6f}".rstrip("0").partition(".")[2])
        first, last = math.ceil(self.begin / step - 1e-9), math.floor(self.end / step + 1e-9)
        return [(self.x(step * index), f"{step * index:.{digits}f}") for index in range(first, last + 1)]

    def _stops(self) -> list[Stop]:
        together: list[list[tuple[int, Step]]] = []
        for number, step in enumerate(self.steps, 1):
            first = together[-1][0] if together else None
            if first and self.x(step.at or 0.0) - self.x(first[1].at or 0.0) < 12 + 7 * len(f"{first[0]}-{number}"):
                together[-1].append((number, step))
            else:
                together.append([(number, step)])
        stops = []
        for index, group in enumerate(together):
            (number, step), last = group[0], group[-1][0]
            x = self.x(step.at or 0.0)
            following = self.x(together[index + 1][0][1].at or 0.0) if index + 1 < len(together) else WIDTH
            label = group[-1][1].phase if following - x > 84 else ""  # noqa: PLR2004
            text = "\n".join(f"{place}. {one.phase}: {one.text} ({one.at:.2f} s)" for place, one in group)
            stops.append(Stop(x, str(number) if number == last else f"{number}-{last}", label, _say(text, 600)))
        return stops

    def _bands(self) -> list[Band]:
        faults: list[tuple[str, list[Json]]] = []
        for entry in self.of("fault"):
            name = str(entry["fault"])
            known = [entries for other, entries in faults if other == name]
            if entry["phase"] == "injected" or not known:
                faults.append((name, [entry]))
            else:
                known[-1].append(entry)
        bands = [self._fault(name, entries) for name, entries in faults]
        for entry in self.of("gap"):
            text = f"history gap: {entry.get('resource')}, {entry.get('reason')}"
            bands.append(self._band((entry["t"], entry["t"], entry["t"]), "gap", text, text))
        if len(bands) > OTHERS:
            self.notes.append(f"{len(bands) - OTHERS} further fault intervals are not drawn")
        return bands[:OTHERS]

    def _fault(self, name: str, entries: list[Json]) -> Band:
        """Place a fault. That it was witnessed may be noted after it healed; when it bit, the witness knows."""
        start = entries[0]["t"]
        healed = next((entry["t"] for entry in entries if entry["phase"] == "healed"), None)
        end = self.end if healed is None else healed
        noted = [entry["t"] for entry in entries if entry["phase"] == "witnessed"]
        known = [one.at for one in self.witnesses if one.fault == name and one.at is not None]
        bitten = [t for t in (*known, *noted) if start <= t <= end]
        seen = min(bitten) if bitten else start if noted or known else None
        label = name + ("" if seen is not None else ", not witnessed") + ("" if healed is not None else ", not healed")
        text = "\n".join(f"{entry['t']:.2f} s {entry['phase']} {entry.get('detail', '')}" for entry in entries)
        return self._band((start, end, seen), "fault", label, f"{label}\n{text}")

    def _band(self, times: tuple[float, float, float | None], kind: str, label: str, title: str) -> Band:
        start, end, seen = times
        x, solid = self.x(start), self.x(end if seen is None else seen)
        width, solid_width = max(self.x(end) - x, 2.0), max(self.x(end) - solid, 0.0)
        return Band(x, round(width, 1), solid, round(solid_width, 1), kind, _say(label, 80), _say(title))

    # Pods

    def _pods(self) -> list[Lane]:
        lanes = []
        for states in self._objects("pods").values():
            first, last = states[0], states[-1]
            spans: list[tuple[float, str, str, str]] = []
            for entry in states:
                if entry["type"] != "DELETED":
                    kind, label, message = _pod_state(entry["object"])
                    if not spans or spans[-1][1:] != (kind, label, message):
                        spans.append((entry["t"], kind, label, message))
            gone = last["t"] if last["type"] == "DELETED" else None
            marks = (
                [Mark(self.x(first["t"]), "created", f"created at {first['t']:.2f} s")]
                if first["type"] == "ADDED"
                else []
            )
            marks += [
                Mark(self.x(t), kind, title, small=True)
                for t, kind, _, namespace, name, title in self.requests
                if (namespace, name) == (first["namespace"], first["name"])
                and first["t"] - 0.5 <= t <= (gone or self.end) + 0.5
            ]
            if gone is not None:
                marks.append(Mark(self.x(gone), "deleted", f"deleted at {gone:.2f} s"))
            title = f"Pod {first['namespace']}/{first['name']}, uid {first['uid']}"
            lanes.append(self._lane(first["name"], title, spans, marks, gone))
        return self._cut(lanes, PODS, "Pods")

    # Nodes

    def _nodes(self) -> list[Lane]:
        first_pod = min((states[0]["t"] for states in self._objects("pods").values()), default=self.end)
        every = [self._node(states, first_pod) for states in self._objects("nodes").values()]
        lanes = [lane for lane in every if lane.marks]
        if quiet := len(every) - len(lanes):
            self.notes.append(
                f"{quiet} node{'s' * (quiet > 1)} without a change {'are' if quiet > 1 else 'is'} not drawn"
            )
        return self._cut(lanes, NODES, "nodes")

    def _node(self, states: list[Json], first_pod: float) -> Lane:
        """Lay out one node; without a mark nothing happened to it."""
        marks: list[Mark] = []
        spans: list[tuple[float, str, str, str]] = []
        before: Json | None = None
        name, last = states[0]["name"], states[-1]
        if states[0]["type"] == "ADDED" and states[0]["t"] > first_pod:
            marks.append(Mark(self.x(states[0]["t"]), "created", f"added at {states[0]['t']:.2f} s"))
        for entry in states:
            if entry["type"] == "DELETED":
                break
            now = entry["object"]
            if before is not None and (changes := _node_changes(before, now)):
                title = "\n".join([f"{entry['t']:.2f} s", *(text for _, text in changes)])
                word = " ".join(dict.fromkeys(word for word, _ in changes))
                marks.append(Mark(self.x(entry["t"]), "changed", _say(title), word))
            # A node that comes up gets its conditions and loses its taint: only then changes are worth telling.
            before = now if before is not None or _up(now) else None
            kind, label = _node_state(now)
            if not spans or spans[-1][1] != kind:
                spans.append((entry["t"], kind, label, ""))
        gone = last["t"] if last["type"] == "DELETED" else None
        if gone is not None and (marks or gone <= self.told):
            marks.append(Mark(self.x(gone), "deleted", f"deleted at {gone:.2f} s"))
        return self._lane(name, f"node {name}", spans, _labelled(marks), gone)

    # Requests and processes

    def _requests(self) -> Iterator[tuple[float, str, str, str, str, str]]:
        """Yield (t, kind, user, namespace, name, title) of each binding request but dry runs, by its audit stages."""
        received: dict[str, Json] = {}
        answered: list[Json] = []
        for entry in self.of("audit"):
            audit = entry["audit"]
            reference = audit.get("objectRef") or {}
            kind = (reference.get("resource"), reference.get("subresource") or "")
            if kind not in BINDINGS or audit.get("verb") != "create" or "dryRun=" in audit.get("requestURI", ""):
                continue
            if audit.get("stage") == "RequestReceived":
                received[audit.get("auditID", "")] = audit
            else:
                received.pop(audit.get("auditID", ""), None)
                answered.append(audit)
        for audit in [*answered, *received.values()]:
            reference = audit.get("objectRef") or {}
            status = audit.get("responseStatus") or {}
            code = status.get("code", 0)
            body = audit.get("requestObject") or {}
            name = str(reference.get("name") or (body.get("metadata") or {}).get("name") or "")
            user = str((audit.get("impersonatedUser") or audit.get("user") or {}).get("username", ""))
            t = _seconds(audit["stageTimestamp"]) - self.epoch
            kind_ = "accepted" if 200 <= code < 300 else "refused" if code else "unanswered"  # noqa: PLR2004
            target = (body.get("target") or {}).get("name")
            title = f"{t:.2f} s binding of {name}" + (f" to {target}" if target else "")
            title += f" {kind_} {code or ''} {status.get('message', '')}\nby {user}"
            yield t, kind_, user, str(reference.get("namespace", "")), name, _say(title)

    def _users(self) -> list[Lane]:
        by_user: dict[str, list[Mark]] = defaultdict(list)
        for t, kind, user, _, _, title in self.requests:
            by_user[user].append(Mark(self.x(t), kind, title))
        lanes = [
            Lane(_say(user.rpartition(":")[2], 80), _say(f"requests of {user}"), (), _thin(marks))
            for user, marks in by_user.items()
        ]
        return self._cut(lanes, OTHERS, "users")

    def _met(self) -> list[Lane]:
        """Lay out the requests that a rule of the fault proxy took, one lane for each object."""
        last = {(entry["instance"], entry["number"]): entry for entry in self.of("request") if entry.get("rule")}
        by_object: dict[str, list[Segment]] = defaultdict(list)
        for entry in last.values():
            what = " ".join(str(entry[key]) for key in ("verb", "resource", "name") if entry.get(key))
            what = what if entry.get("resource") else f"{what} {entry.get('target', '')}"
            start, end = entry["received"], entry["at"] if entry["stage"] == "ended" else self.end
            x = self.x(start)
            width = max(self.x(end) - x, 2.0)
            label = ", ".join(str(entry[key]) for key in ("do", "end") if entry.get(key))
            sent = f"API server {entry.get('upstream') or 'no answer'}" if entry.get("sent") else "not sent on"
            title = f"{what} of {entry.get('instance')}\n{start:.2f} s to {end:.2f} s: {label}\n{sent}"
            title += f", candidate {entry.get('status') or 'no answer'}"
            by_object[str(entry.get("name") or entry.get("resource") or entry.get("instance"))].append(
                Segment(x, round(width, 1), "met", _fit(label, width - 8), _say(title))
            )
        lanes = [
            Lane(_say(name, 80), _say(f"requests about {name} that met a fault"), segments)
            for name, segments in by_object.items()
        ]
        return self._cut(lanes, OTHERS, "objects of requests that met a fault")

    def _processes(self) -> list[Lane]:
        by_process: dict[str, list[Json]] = defaultdict(list)
        for entry in self.of("process"):
            by_process[str(entry.get("process"))].append(entry)
        lanes = []
        for name, entries in by_process.items():
            if all(entry.get("event") == "started" for entry in entries) and len(entries) == 1:
                continue
            spans: list[tuple[float, str, str, str]] = []
            if entries[0].get("event") != "started":
                spans.append((0.0, "alive", "", ""))
            for entry in entries:
                if entry.get("event") == "started":
                    spans.append((entry["t"], "alive", str(entry.get("detail", "")), ""))
                elif entry.get("event") in ("exited", "killed"):
                    spans.append((entry["t"], "ended", f"{entry['event']}, {entry.get('detail', '')}", ""))
                elif entry.get("event") == "frozen":
                    spans.append((entry["t"], "ended", "frozen", ""))
                elif entry.get("event") == "thawed":
                    spans.append((entry["t"], "alive", "", ""))
            marks = [
                Mark(
                    self.x(entry["t"]),
                    "signalled" if entry.get("event") in ("signalled", "killed", "frozen", "thawed") else "changed",
                    _say(f"{entry['t']:.2f} s {entry.get('event')} {entry.get('detail', '')}"),
                )
                for entry in entries
            ]
            lanes.append(self._lane(name, f"process {name}", spans, marks, None))
        return self._cut(lanes, OTHERS, "processes")

    # Metrics and Events

    def _plots(self) -> list[Plot]:
        samples: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        for entry in self.of("metric"):
            samples[entry["name"]][json.dumps(entry["labels"], sort_keys=True)].append((entry["t"], entry["value"]))
        own = [
            name
            for name, series in samples.items()
            if not name.startswith("scheduler_")
            and not name.endswith(HISTOGRAM)
            and any(value != one[0][1] for one in series.values() for _, value in one)
        ]
        chosen = [name for name in PLOTS if name in samples] + own[:OWN]
        scraped = min((entry["t"] for entry in self.of("metric")), default=0.0)
        plots = [self._plot(name, samples[name], scraped) for name in chosen]
        return [plot for plot in plots if plot.series]

    def _plot(self, name: str, samples: dict[str, list[tuple[float, float]]], scraped: float) -> Plot:
        labels = [json.loads(key) for key in samples]
        telling = [key for key in labels[0] if len({one.get(key) for one in labels}) > 1]
        title, label = PLOTS.get(name, (name, telling[0] if telling else ""))
        grouped: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
        for one, series in zip(labels, samples.values(), strict=True):
            # What was not there at the first scrape is counted from nothing.
            begun = [] if series[0][0] <= scraped else [(scraped, 0.0)]
            grouped[str(one.get(label, ""))].append([*begun, *series])
        counter = name.endswith("_total")
        curves = {value: _sum(series, since_start=counter) for value, series in grouped.items()}
        told = [value for value, curve in curves.items() if any(height for _, height in curve)]
        if len(told) > SERIES:
            self.notes.append(f"{name}: {len(told) - SERIES} further series are not drawn")
        values = [value for curve in curves.values() for _, value in curve]
        low, top = min(0.0, *values), max(1.0, *values)
        lines_ = [
            Series(_say(value, 24), self._path(curves[value], low, top), index)
            for index, value in enumerate(told[:SERIES])
        ]
        words = title + (f" by {label}" if label else "")
        return Plot(_say(name), _fit(_say(words), 130), 0.0, lines_, f"{top:g}", f"{low:g}")

    def _path(self, curve: list[tuple[float, float]], low: float, top: float) -> str:
        path = ""
        for t, value in curve:
            y = round((PLOT - 6) * (1 - (value - low) / (top - low)) + 3, 1)
            path += f"H{self.x(t):g}V{y:g}" if path else f"M{self.x(t):g} {y:g}"
        return path + f"H{self.x(self.end):g}"

    def _events(self) -> list[Event]:
        last: dict[tuple[str, str, str], Json] = {}
        counts: dict[tuple[str, str, str], int] = defaultdict(int)
        for entry in self.of("object"):
            if entry["resource"] == "events" and entry["type"] in ("ADDED", "MODIFIED"):
                manifest = entry["object"]
                about = manifest.get("involvedObject") or manifest.get("regarding") or {}
                key = (
                    f"{about.get('kind', '')} {about.get('name', '')}",
                    str(manifest.get("reason", "")),
                    str(manifest.get("message") or manifest.get("note") or ""),
                )
                counts[key] += 1
                last.setdefault(key, entry)
        found = [
            Event(entry["t"], _say(key[0], 80), _say(key[1], 40), _say(key[2]), counts[key])
            for key, entry in last.items()
        ]
        if len(found) > EVENTS:
            self.notes.append(f"{len(found) - EVENTS} further Events are not listed")
        telling = sorted(found, key=lambda event: event.reason == "Scheduled")[:EVENTS]
        return sorted(telling, key=lambda event: event.t)

    # Lanes

    def _objects(self, resource: str) -> dict[str, list[Json]]:
        by_uid: dict[str, list[Json]] = defaultdict(list)
        for entry in self.of("object"):
            if entry["resource"] == resource:
                by_uid[entry["uid"]].append(entry)
        return by_uid

    def _lane(
        self, name: str, title: str, spans: list[tuple[float, str, str, str]], marks: list[Mark], gone: float | None
    ) -> Lane:
        segments: list[Segment] = []
        end = self.end if gone is None else gone
        for index, (start, kind, label, message) in enumerate(spans):
            until = spans[index + 1][0] if index + 1 < len(spans) else end
            x = self.x(start)
            width = round(max(self.x(until) - x, 1.5), 1)
            text = f"{label or name}, {start:.2f} s to {until:.2f} s" + (f"\n{message}" if message else "")
            # Changes that fall on one pixel are one segment: the last, longer state is the one to be seen.
            if segments and x - segments[-1].x < 1:
                text = f"{_say(segments[-1].title, 160)}\n{text}"
                segments.pop()
            marked = any(mark.kind in ("changed", "signalled") and abs(mark.x - x) < 6 for mark in marks)  # noqa: PLR2004
            indent = 9.0 if marked else 4.0
            segments.append(Segment(x, width, kind, _fit(_say(label, 80), width - 4 - indent), _say(text), indent))
        return Lane(_say(name, 80), _say(title), segments, _thin(marks))

    def _cut(self, lanes: list[Lane], most: int, what: str) -> list[Lane]:
        """Keep the lanes in which most happened, in their order."""
        if len(lanes) <= most:
            return lanes
        busy = sorted(range(len(lanes)), key=lambda index: -len(lanes[index].segments) - len(lanes[index].marks))
        self.notes.append(f"{most} of {len(lanes)} {what} are drawn: those in which most happened")
        return [lanes[index] for index in sorted(busy[:most])]


def _made(entry: Json) -> bool:
    """Whether an entry tells of something that was not there before the timeline."""
    return entry["kind"] == "object" and entry["resource"] in ("pods", "nodes") and entry["type"] != "LISTED"


def _pod_state(pod: Json) -> tuple[str, str, str]:  # noqa: PLR0911 - one for each state
    """Return (kind, label, message) of what a Pod is in."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    node = spec.get("nodeName")
    where = f" on {node}" if node else ""
    phase = status.get("phase", "")
    if phase == "Failed":
        return "failed", f"Failed{where}", f"{status.get('reason', '')} {status.get('message', '')}".strip()
    if phase == "Succeeded":
        return "succeeded", f"Succeeded{where}", ""
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "terminating", f"Terminating{where}", ""
    if phase == "Running":
        return "running", f"Running{where}", ""
    if node:
        return "bound", f"Bound to {node}", ""
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") != "False":
        return "pending", "Pending", ""
    reason = str(scheduled.get("reason", ""))
    kind = {"SchedulingGated": "gated", "SchedulerError": "refused-by-error"}.get(reason, "unschedulable")
    nominated = f"\nnominated node {status['nominatedNodeName']}" if status.get("nominatedNodeName") else ""
    return kind, reason or "Unscheduled", f"{scheduled.get('message', '')}{nominated}"


def _node_state(node: Json) -> tuple[str, str]:
    ready = _condition(node, "Ready").get("status")
    if ready != "True":
        return "not-ready", "NotReady" if ready else "no condition yet"
    return ("cordoned", "Cordoned") if (node.get("spec") or {}).get("unschedulable") else ("ready", "")


def _up(node: Json) -> bool:
    keys = [taint.get("key") for taint in (node.get("spec") or {}).get("taints") or []]
    return _condition(node, "Ready").get("status") == "True" and STARTING not in keys


def _node_changes(before: Json, now: Json) -> list[tuple[str, str]]:
    """Return (word, sentence) for each difference that a scheduler may care about."""

    def look(node: Json) -> dict[str, dict[str, str]]:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        return {
            "label": dict((node.get("metadata") or {}).get("labels") or {}),
            "taint": {
                f"{taint.get('key')}:{taint.get('effect')}": str(taint.get("value", "")) or "set"
                for taint in spec.get("taints") or []
            },
            "cordon": {"unschedulable": "true"} if spec.get("unschedulable") else {},
            "allocatable": {key: str(value) for key, value in (status.get("allocatable") or {}).items()},
            "ready": {"Ready": str(_condition(node, "Ready").get("status"))},
        }

    old, new = look(before), look(now)
    return [
        (word, f"{word} {key}: {old[word].get(key, 'absent')} → {new[word].get(key, 'absent')}")
        for word in old
        for key in sorted(old[word].keys() | new[word].keys())
        if old[word].get(key) != new[word].get(key)
    ]


def _condition(of: Json, kind: str) -> Json:
    conditions = (of.get("status") or {}).get("conditions") or []
    found: Json = next((one for one in conditions if one.get("type") == kind), {})
    return found


def _sum(series: list[list[tuple[float, float]]], *, since_start: bool) -> list[tuple[float, float]]:
    """Add up the series of one label value; a counter is shown from its first value on, over restarts too."""
    curves = []
    for samples in series:
        offset = -samples[0][1] if since_start else 0.0
        before = samples[0][1]
        curve = []
        for t, value in samples:
            if since_start and value < before:
                offset += before
            before = value
            curve.append((t, value + offset))
        curves.append(curve)
    if len(curves) == 1:
        return curves[0]
    times = sorted({t for curve in curves for t, _ in curve})
    return [(t, sum(_at(curve, t) for curve in curves)) for t in times]


def _at(curve: list[tuple[float, float]], t: float) -> float:
    index = bisect_left(curve, (t, float("inf")))
    return curve[index - 1][1] if index else 0.0


def _thin(marks: Iterable[Mark]) -> list[Mark]:
    """Join marks of one kind that would lie on one another."""
    kept: list[Mark] = []
    last: dict[str, tuple[int, int]] = {}
    for mark in marks:
        index, count = last.get(mark.kind, (-1, 0))
        if index >= 0 and abs(mark.x - kept[index].x) < 2:  # noqa: PLR2004
            first = kept[index].title if count == 1 else kept[index].title.partition("\n")[2]
            kept[index] = replace(kept[index], title=f"{count + 1} times, the first:\n{first}")
            last[mark.kind] = (index, count + 1)
        else:
            last[mark.kind] = (len(kept), 1)
            kept.append(mark)
    return kept


def _labelled(marks: list[Mark]) -> list[Mark]:
    """Keep the labels for which there is room before the next mark."""
    following = [*(mark.x for mark in marks[1:]), WIDTH - RIGHT]
    return [
        mark if LETTER * len(mark.label) + 16 < after - mark.x else replace(mark, label="")
        for mark, after in zip(marks, following, strict=False)
    ]


def _say(text: str, most: int = 240) -> str:
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _fit(text: str, width: float) -> str:
    """Shorten a text to a width in SVG units, to nothing where not even a few letters fit."""
    letters = int(width / LETTER)
    if len(text) <= letters:
        return text
    return text[: letters - 1] + "…" if letters > 5 else ""  # noqa: PLR2004


def _seconds(wall: str) -> float:
    return datetime.fromisoformat(wall).timestamp()
