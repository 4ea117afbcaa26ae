"""The picture shows what the history says."""

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from reports import picture
from reports.picture import LEFT, RIGHT, WIDTH, Lane, Picture
from reports.record import Step, Witness
from tests.reports.sample import CANDIDATE, START, Story


@pytest.fixture
def story() -> Story:
    return Story(namespace="u-1", begin=START)


def drawn(story: Story, **options: object) -> Picture:
    return picture.draw(story.lines, story.steps, **options)  # type: ignore[arg-type]


def lane(of: Picture, group: str, name: str) -> Lane:
    lanes = next(one.lanes for one in of.groups if one.name == group)
    return next(one for one in lanes if one.name == name)


def seconds(of: Picture, x: float) -> float:
    """Read the axis: two of its ticks give the scale."""
    (x0, t0), (x1, t1) = ((x, float(label)) for x, label in (of.ticks[0], of.ticks[-1]))
    return t0 + (x - x0) * (t1 - t0) / (x1 - x0)


def test_the_life_of_a_pod(story: Story) -> None:
    story.node("gpu-1")
    story.pod("a")
    story.wait(1)
    story.refuse("a", "0/1 nodes are available: <b>no</b> room")
    story.wait(1)
    story.refuse("a", "running Bind plugin: denied", "SchedulerError")
    story.wait(1)
    story.bind("a", "gpu-1")
    story.wait(1)
    story.phase("a", "Running")
    story.wait(1)
    story.delete("a")
    story.wait(1)
    story.step("conclude", "end")
    of = drawn(story)
    pod = lane(of, "Pods", "a")
    kinds = ["pending", "unschedulable", "refused-by-error", "bound", "running", "terminating"]
    assert [segment.kind for segment in pod.segments] == kinds
    assert "<b>no</b> room" in pod.segments[1].title
    assert [segment.label for segment in pod.segments][3:5] == ["Bound to gpu-1", "Running on gpu-1"]
    for segment, following in pairwise(pod.segments):
        assert segment.x + segment.width == pytest.approx(following.x, abs=0.2)
    assert [mark.kind for mark in pod.marks] == ["created", "accepted", "deleted"]
    deleted = next(line["t"] for line in story.lines if line.get("type") == "DELETED")
    assert seconds(of, pod.marks[-1].x) == pytest.approx(deleted, abs=0.02)


@pytest.mark.parametrize(
    ("phase", "kind", "label"),
    [("Succeeded", "succeeded", "Succeeded on gpu-1"), ("Failed", "failed", "Failed on gpu-1")],
)
def test_a_pod_that_ended_keeps_its_end(story: Story, phase: str, kind: str, label: str) -> None:
    story.pod("a")
    story.bind("a", "gpu-1")
    story.wait(1)
    story.phase("a", phase, reason="OutOfnvidia.com/gpu")
    story.wait(2)
    story.step("check", "end")
    last = lane(drawn(story), "Pods", "a").segments[-1]
    assert (last.kind, last.label) == (kind, label)
    assert phase != "Failed" or "OutOfnvidia.com/gpu" in last.title


def test_a_recreated_pod_is_another_lane(story: Story) -> None:
    for _ in range(2):
        story.pod("a")
        story.wait(1)
        story.objects["a"]["metadata"]["uid"] += f"-{story.rv}"
        for line in story.lines:
            if line["kind"] == "object" and line["name"] == "a" and line["uid"] == "pod-u-1-a":
                line["uid"] = story.objects["a"]["metadata"]["uid"]
        story.delete("a")
    assert [one.name for one in drawn(story).groups[0].lanes] == ["a", "a"]


def test_requests_are_told_apart(story: Story) -> None:
    story.pod("a")
    story.wait(1)
    story.binding("a", "gpu-1", 422, "denied by <policy>")
    story.wait(1)
    story.binding("a", "gpu-1", 504)
    story.wait(1)
    story.binding("a", "gpu-1", 201)
    story.lines.pop()  # the answer was never logged
    story.wait(1)
    story.binding("a", "gpu-1", 201, user="system:serviceaccount:unreserve-system:rival")
    story.wait(1)
    story.binding("a", "gpu-1")
    for line in story.lines[-2:]:
        line["audit"]["requestURI"] += "?dryRun=All"
    of = drawn(story)
    assert [mark.kind for mark in lane(of, "Binding requests", "gpu-packing").marks] == [
        "refused",
        "refused",
        "unanswered",
    ]
    assert [mark.kind for mark in lane(of, "Binding requests", "rival").marks] == ["accepted"]
    first = lane(of, "Binding requests", "gpu-packing").marks[0]
    assert "422 denied by <policy>" in first.title
    assert CANDIDATE in first.title
    assert [mark.kind for mark in lane(of, "Pods", "a").marks] == [
        "created",
        "refused",
        "refused",
        "unanswered",
        "accepted",
    ]


def test_requests_stand_at_the_time_of_their_answer_not_of_the_log(story: Story) -> None:
    story.pod("a")
    story.wait(1)
    story.binding("a", "gpu-1", 422)
    answered = story.lines[-1]["audit"]["stageTimestamp"]
    story.lines[-1]["t"] += 5  # read from the log late
    of = drawn(story)
    mark = lane(of, "Binding requests", "gpu-packing").marks[0]
    expected = picture._seconds(answered) - START.timestamp()
    assert seconds(of, mark.x) == pytest.approx(expected, abs=0.02)


def test_a_binding_by_the_older_way_counts_too(story: Story) -> None:
    story.pod("a")
    story.binding("a", "gpu-1")
    for line in story.lines[-2:]:
        line["audit"]["objectRef"] = {"resource": "bindings", "namespace": "u-1"}
    story.lines[-1]["audit"]["requestObject"]["metadata"] = {"name": "a"}
    assert [mark.kind for mark in lane(drawn(story), "Pods", "a").marks] == ["created", "accepted"]


def test_only_nodes_that_changed_are_drawn(story: Story) -> None:
    for name in ("still", "label", "taint", "cards", "sick", "gone"):
        story.node(name)
    story.pod("a")
    story.wait(1)
    story.seen("nodes", "MODIFIED", story.objects["still"])  # a heartbeat
    story.relabel("label", None)
    story.taint("taint", {"key": "k", "value": "v", "effect": "NoSchedule"})
    story.devices("cards", 4)
    story.ready("sick", "False")
    story.seen("nodes", "DELETED", story.objects["gone"])
    story.node("late")
    story.wait(1)
    story.step("check", "end")
    of = drawn(story)
    nodes = next(group.lanes for group in of.groups if group.name == "Nodes")
    assert [one.name for one in nodes] == ["label", "taint", "cards", "sick", "gone", "late"]
    assert "1 node without a change is not drawn" in of.notes
    titles = {one.name: one.marks[-1].title for one in nodes}
    assert "label infra.example.com/high-speed-network: true → absent" in titles["label"]
    assert "taint k:NoSchedule: absent → v" in titles["taint"]
    assert "allocatable nvidia.com/gpu: 8 → 4" in titles["cards"]
    assert "ready Ready: True → False" in titles["sick"]
    assert [segment.kind for segment in lane(of, "Nodes", "sick").segments] == ["ready", "not-ready"]
    assert titles["gone"].startswith("deleted")
    assert titles["late"].startswith("added")


def test_a_node_that_comes_up_is_not_a_change(story: Story) -> None:
    story.pod("a")
    story.wait(0.1)
    story.node("gpu-1", change="LISTED")
    story.lines.pop()
    node = story.objects["gpu-1"]
    ready = node["status"].pop("conditions")
    story.seen("nodes", "LISTED", node)
    node["status"]["conditions"] = ready
    node["spec"]["taints"] = [{"key": picture.STARTING, "effect": "NoSchedule"}]
    story.seen("nodes", "MODIFIED", node)
    node["spec"]["taints"] = []
    story.seen("nodes", "MODIFIED", node)
    assert [group.name for group in drawn(story).groups] == ["Pods"]


def test_a_fault_is_shaded_from_injection_to_heal(story: Story) -> None:
    story.wait(1)
    story.fault("bind denied", "injected")
    story.wait(2)
    story.fault("bind denied", "witnessed", "422")
    story.wait(2)
    story.fault("bind denied", "healed")
    story.wait(1)
    story.step("check", "end")
    of = drawn(story)
    (band,) = of.bands
    times = {line["phase"]: line["t"] for line in story.lines if line["kind"] == "fault"}
    assert seconds(of, band.x) == pytest.approx(times["injected"], abs=0.02)
    assert seconds(of, band.x + band.width) == pytest.approx(times["healed"], abs=0.02)
    assert seconds(of, band.solid_x) == pytest.approx(times["witnessed"], abs=0.02)
    assert band.label == "bind denied"


def test_a_fault_noted_as_witnessed_after_it_healed_was_witnessed(story: Story) -> None:
    story.fault("bind denied", "injected")
    story.wait(2)
    story.fault("bind denied", "healed")
    story.wait(1)
    story.fault("bind denied", "witnessed")
    of = drawn(story, witnesses=[Witness(fault="bind denied", at=1.0)])
    assert of.bands[0].label == "bind denied"
    assert seconds(of, of.bands[0].solid_x) == pytest.approx(1.0, abs=0.02)
    assert drawn(story).bands[0].label == "bind denied"


def test_a_fault_that_never_bit_or_never_healed_says_so(story: Story) -> None:
    story.fault("bind denied", "injected")
    story.wait(2)
    story.step("check", "end")
    (band,) = drawn(story).bands
    assert band.label == "bind denied, not witnessed, not healed"
    assert band.x + band.width == WIDTH - RIGHT
    assert band.solid_width == 0


def test_requests_that_met_a_fault_are_drawn_while_they_lasted(story: Story) -> None:
    story.pod("a")
    story.wait(1)
    story.request(1, "met", "a", rule="r", do="hold", sent=False, upstream=0, status=0)
    held = story.t
    story.request(2, "ended", "b", sent=True, upstream=201, status=201, end="answered")
    story.wait(2)
    story.request(
        1, "ended", "a", rule="r", do="hold", sent=True, upstream=201, status=201, end="answered", received=held
    )  # fmt: skip
    let_go = story.t
    story.wait(1)
    story.request(3, "met", "c", rule="r", do="hang", sent=False, upstream=0, status=0)
    story.wait(1)
    story.step("conclude", "end")

    of = drawn(story)

    assert [one.name for one in next(g.lanes for g in of.groups if g.name == "Met by the fault proxy")] == ["a", "c"]
    (segment,) = lane(of, "Met by the fault proxy", "a").segments
    assert seconds(of, segment.x) == pytest.approx(held, abs=0.05)
    assert seconds(of, segment.x + segment.width) == pytest.approx(let_go, abs=0.05)
    assert (segment.kind, segment.label) == ("met", "hold, answered")
    assert "API server 201, candidate 201" in segment.title
    (open_still,) = lane(of, "Met by the fault proxy", "c").segments
    assert seconds(of, open_still.x + open_still.width) == pytest.approx(story.t * 1.01, abs=0.1)
    assert "not sent on, candidate no answer" in open_still.title


def test_a_gap_is_shown(story: Story) -> None:
    story.wait(1)
    story.add("gap", resource="pods", from_rv="1", to_rv="9", reason="410 Gone")
    story.wait(1)
    story.step("check", "end")
    (band,) = drawn(story).bands
    assert (band.kind, band.label) == ("gap", "history gap: pods, 410 Gone")


def test_processes_are_drawn_when_something_happened_to_them(story: Story) -> None:
    assert drawn(story).groups == []
    story.wait(1)
    story.process("kube-scheduler", "signalled", "SIGKILL")
    story.wait(1)
    story.process("kube-scheduler", "exited", "code -9")
    story.wait(1)
    story.process("kube-scheduler", "started")
    story.wait(1)
    story.step("check", "end")
    process = lane(drawn(story), "Processes", "kube-scheduler")
    assert [segment.kind for segment in process.segments] == ["alive", "ended", "alive"]
    assert [mark.kind for mark in process.marks] == ["changed", "signalled", "changed", "changed"]


def test_steps_are_numbered_as_in_the_list(story: Story) -> None:
    story.step("arrange", "one")
    story.step("arrange", "two")
    story.wait(5)
    story.step("check", "three")
    assert [(stop.number, stop.label) for stop in drawn(story).stops] == [("1-2", "arrange"), ("3", "")]


def test_counters_start_at_zero_and_survive_a_restart(story: Story) -> None:
    story.lines.clear()
    for t, value in ((1, 17), (2, 19), (3, 1), (4, 3)):
        story.t = t
        story.add("metric", name="x_total", labels={"result": "error"}, value=float(value))
        if t > 1:  # not there at the first scrape: counted from nothing
            story.add("metric", name="x_total", labels={"result": "new"}, value=8.0 + t)
    plot = drawn(story).plots[0]
    assert plot.top == "12"
    assert [one.path.count("V") for one in plot.series] == [3, 3]
    assert picture._sum([[(1, 17.0), (2, 19.0), (3, 1.0), (4, 3.0)]], since_start=True) == [
        (1, 0),
        (2, 2),
        (3, 3),
        (4, 5),
    ]


def test_series_of_one_label_value_are_added_up() -> None:
    assert picture._sum([[(1, 1.0), (3, 2.0)], [(2, 5.0)]], since_start=False) == [(1, 1), (2, 6), (3, 7)]


def test_plots_show_what_moved_and_nothing_else(story: Story) -> None:
    for t, value in ((1, 0.0), (2, 3.0)):
        story.t = t
        story.add("metric", name="ledger_slots", labels={"state": "held"}, value=value)
        story.add("metric", name="scheduler_goroutines", labels={"operation": "binding"}, value=value)
        story.add("metric", name="lag_seconds_bucket", labels={"le": "1"}, value=value)
        story.add("metric", name="still", labels={}, value=1.0)
    story.pod("a")
    story.refuse("a", "no room")
    of = drawn(story)
    assert [plot.name for plot in of.plots] == [*picture.PLOTS, "ledger_slots"]
    assert [one.label for one in of.plots[0].series] == ["unschedulable"]


def test_the_picture_starts_with_the_story(story: Story) -> None:
    story.wait(5)
    story.step("arrange", "a node")
    story.pod("a")
    story.wait(5)
    story.step("check", "end")
    of = drawn(story)
    assert float(of.ticks[0][1]) >= 5
    assert LEFT < lane(of, "Pods", "a").segments[0].x < LEFT + 60
    assert seconds(of, lane(of, "Pods", "a").segments[0].x) == pytest.approx(5.0, abs=0.5)


def test_nodes_cleared_away_at_the_end_did_not_change(story: Story) -> None:
    story.node("gpu-1")
    story.pod("a")
    story.step("conclude", "end")
    story.wait(1)
    story.seen("nodes", "DELETED", story.objects["gpu-1"])
    assert [group.name for group in drawn(story).groups] == ["Pods"]


def test_what_is_cut_is_said(story: Story) -> None:
    for number in range(40):
        story.pod(f"p{number}")
        story.wait(0.05)
        if number >= 10:
            story.refuse(f"p{number}", f"no room {number}")
            story.wait(0.05)
    of = drawn(story)
    assert len(of.groups[0].lanes) == picture.PODS
    assert "24 of 40 Pods are drawn: those in which most happened" in of.notes
    assert all(int(one.name[1:]) >= 10 for one in of.groups[0].lanes)
    assert len(of.events) == picture.EVENTS
    assert "15 further Events are not listed" in of.notes


def test_a_storm_does_not_blow_up_the_picture(story: Story) -> None:
    story.pod("a")
    for number in range(3000):
        story.t += 0.001
        story.refuse("a", f"message {number}")
        story.binding("a", "gpu-1", 409)
    of = drawn(story)
    pod = lane(of, "Pods", "a")
    assert len(pod.segments) < WIDTH
    assert len(pod.marks) < WIDTH
    assert "times, the first:" in lane(of, "Binding requests", "gpu-packing").marks[0].title


def test_texts_are_cleaned_and_shortened(story: Story) -> None:
    story.pod("a")
    story.refuse("a", "token: abcdef " + "x" * 1000)
    segment = lane(drawn(story), "Pods", "a").segments[-1]
    assert "abcdef" not in segment.title
    assert len(segment.title) <= 240
    assert "abcdef" not in drawn(story).events[0].message


@pytest.mark.parametrize("end", [0.3, 1, 4, 9.9, 31, 75, 299, 1234, 9000])
def test_the_axis_has_round_ticks(end: float) -> None:
    ends = [Step(phase="arrange", text="", at=0.0), Step(phase="check", text="", at=end)]
    of = picture.draw([], ends)
    labels = [float(label) for _, label in of.ticks]
    assert 4 <= len(labels) <= 12
    assert labels[0] == 0
    steps = {round(b - a, 6) for a, b in pairwise(labels)}
    assert len(steps) == 1
    assert f"{steps.pop():e}"[0] in "125"


def test_an_empty_history_is_a_picture_too() -> None:
    assert picture.draw([]).summary == "0.1 seconds with nothing recorded"


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path, story: Story) -> None:
    story.pod("a")
    path = tmp_path / "s1.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in story.lines)
    path.write_text(text[:-20])
    assert list(picture.lines(path)) == story.lines[:-1]


def test_the_clock_of_the_audit_log_is_that_of_the_timeline(story: Story) -> None:
    story.begin = START + timedelta(hours=3)
    story.lines.clear()
    story.pod("a")
    story.wait(1)
    story.binding("a", "gpu-1")
    of = drawn(story)
    t = seconds(of, lane(of, "Binding requests", "gpu-packing").marks[0].x)
    assert t == pytest.approx(1.0, abs=0.15)
