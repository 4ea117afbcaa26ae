"""The page: complete, self-contained, escaped, legible."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from reports import signoff
from reports.picture import lines
from reports.record import (
    Candidate,
    Deviation,
    Finding,
    Measurement,
    Record,
    Requirement,
    RunVerdict,
    Scenario,
    Step,
    Verdict,
    Witness,
    read,
)
from tests.reports import sample

CSS = Path(signoff.__file__).parent / "templates" / "signoff.css"
HOSTILE = (
    "</title></svg></pre></style><script>alert(1)</script><img src=x onerror=alert(1)>"
    "\"' onmouseover=alert(1) {{ 7 * 7 }} {% raw %} javascript:alert(1) &lt;b&gt; \x1b[31m\u202e"
)
# Elements that may stand in the page. No script, no form, nothing that loads.
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer", "nav", "p", "div", "span",
    "h1", "h2", "h3", "h4", "a", "ol", "ul", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td",
    "code", "pre", "strong", "br", "details", "summary", "figure", "figcaption", "i",
    "svg", "g", "rect", "path", "text", "use", "defs",
}  # fmt: skip


class Parsed(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "rect", "path", "use"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("rect", "path", "use"):
            return
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def values(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.elements if attribute in attrs]


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results") / "bad"
    signoff.write(directory, sample.write(directory))
    return directory


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results") / "good"
    signoff.write(directory, sample.write(directory, good=True))
    return directory


def page(directory: Path) -> str:
    return (directory / signoff.PAGE).read_text()


def text(directory: Path) -> str:
    return " ".join(" ".join(Parsed(page(directory)).text).split())


def nothing(_: str) -> Iterator[dict[str, Any]]:
    raise FileNotFoundError(2, "No such file or directory")


def test_verdict_and_blockers_come_first(bad: Path) -> None:
    drawn = page(bad)
    order = [
        "</span>error</h1>",
        "23 of 29 core requirements hold",
        "Cannot be signed off",
        'id="blockers"',
        "healing of `bind denied` could not be verified",
        "SELECT=CAP-5",
        'id="tested"',
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'id="requirements"',
        'id="waivers"',
        'id="absent"',
        'id="scenarios"',
    ]
    places = [drawn.index(one) for one in order]
    assert places == sorted(places)


def test_a_success_can_be_signed(good: Path, bad: Path) -> None:
    assert "A full run: it can be signed off." in text(good)
    assert "Signature" in text(good)
    assert "Blockers" not in text(good)
    assert "Signature" not in text(bad)


def test_everything_that_was_tested_is_named(bad: Path) -> None:
    said = text(bad)
    for fact in (
        "gpu-packing", "v1.37.2", "Example GPU Platform", "82583862c1f0", "seed 20261130", "1.25", "provider local",
        "30 Nov 2026 09:14:02 UTC", "podMaxBackoffSeconds: 10", "node-affinity", "2 cores, 23.5 GiB",
        "not claimed: permit-wait", "SCHED-1182", "expired, did not count", "The metrics endpoint serves no",
    ):  # fmt: skip
        assert fact in said, fact


def test_links_inside_the_page_lead_somewhere(bad: Path) -> None:
    parsed = Parsed(page(bad))
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    targets = [link[1:] for link in parsed.values("href") if link.startswith("#")]
    assert len(targets) > 60
    assert set(targets) <= set(ids)


def test_histories_are_linked_and_exist(bad: Path) -> None:
    links = [link for link in Parsed(page(bad)).values("href") if not link.startswith("#")]
    assert len(links) == 30
    assert all((bad / link).is_file() for link in links)


def test_nothing_is_loaded_and_nothing_runs(bad: Path, good: Path) -> None:
    for directory in (bad, good):
        parsed = Parsed(page(directory))
        assert {tag for tag, _ in parsed.elements} <= ELEMENTS
        assert not any(parsed.values(name) for name in ("src", "srcset", "action", "data", "poster", "xlink:href"))
        assert all(
            href.startswith("#") for tag, attrs in parsed.elements if tag == "use" for href in [attrs["href"] or ""]
        )
        assert not any(name.startswith("on") for _, attrs in parsed.elements for name in attrs)
        assert not re.search(r"url\(|@import|expression\(", page(directory))
        assert "default-src 'none'" in page(directory)


def hostile_record() -> Record:
    step = Step(phase="break", text=HOSTILE, at=1.0)
    scenario = Scenario(
        name=f"test_{HOSTILE}",
        verdict=Verdict.FAIL,
        message=HOSTILE,
        measurements=[Measurement(what=HOSTILE, measured_seconds=1, bound_seconds=2)],
        figures={HOSTILE: 1.0},
        witnesses=[Witness(fault=HOSTILE, detail=HOSTILE, at=1.0, entries=[1])],
        steps=[step],
        findings=[Finding(requirement=HOSTILE, message=HOSTILE)],
        notes=[HOSTILE],
        history=f"history/{HOSTILE}",
    )
    row = Requirement(
        id=HOSTILE,
        title=HOSTILE,
        level="extended",
        features=[HOSTILE],
        origin=HOSTILE,
        reason=HOSTILE,
        scenarios=[scenario],
    )
    booked = Scenario(name=HOSTILE, verdict=Verdict.FAIL, message=HOSTILE, findings=scenario.findings, found_in=HOSTILE)
    skipped = Requirement(id=f"{HOSTILE}-2", title=HOSTILE, reason=HOSTILE)
    identity = dict.fromkeys(("name", "version", "digest", "organisation", "contact", "source"), HOSTILE)
    return sample.blank(
        run_id=HOSTILE,
        verdict=RunVerdict.ERROR,
        selection="filtered",
        select=HOSTILE,
        candidate=Candidate(**identity, scheduler_names=[HOSTILE]),
        kubernetes=HOSTILE,
        provider=HOSTILE,
        command=[HOSTILE, HOSTILE],
        configuration=HOSTILE,
        claims={HOSTILE: {HOSTILE: HOSTILE}},
        deviations=[Deviation(id=HOSTILE, reason=HOSTILE, owner=HOSTILE, link=HOSTILE)],
        requirements=[row, Requirement(id="X-1", scenarios=[booked]), skipped],
        errors=[HOSTILE],
        notes=[HOSTILE],
    )


def hostile_history() -> list[dict[str, Any]]:
    story = sample.Story(namespace=HOSTILE, begin=sample.START)
    story.node(HOSTILE)
    story.pod(HOSTILE)
    story.wait(1)
    story.refuse(HOSTILE, HOSTILE, HOSTILE)
    story.fault(HOSTILE, "injected", HOSTILE)
    story.binding(HOSTILE, HOSTILE, 422, HOSTILE, user=f"a:{HOSTILE}")
    story.wait(1)
    story.objects[HOSTILE]["status"]["nominatedNodeName"] = HOSTILE
    story.phase(HOSTILE, "Failed", reason=HOSTILE, message=HOSTILE)
    story.event(HOSTILE, HOSTILE, HOSTILE)
    story.process(HOSTILE, "exited", HOSTILE)
    story.add("gap", resource=HOSTILE, from_rv="1", to_rv="2", reason=HOSTILE)
    for value in (1.0, 2.0):
        story.wait(0.1)
        story.add("metric", name=HOSTILE, labels={HOSTILE: HOSTILE}, value=value)
    node = {
        "metadata": {"name": HOSTILE, "uid": "n", "labels": {HOSTILE: HOSTILE}},
        "spec": {"taints": [{"key": HOSTILE, "value": HOSTILE, "effect": HOSTILE}], "unschedulable": True},
        "status": {"allocatable": {HOSTILE: HOSTILE}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    story.seen("nodes", "ADDED", node)
    node["metadata"]["labels"] = {}  # type: ignore[index]
    story.seen("nodes", "MODIFIED", node)
    story.wait(1)
    story.step("check", HOSTILE)
    return story.lines


def test_whatever_a_candidate_says_stays_text() -> None:
    drawn = signoff.page(hostile_record(), lambda _: iter(hostile_history()))
    parsed = Parsed(drawn)  # every element is closed where it was opened
    assert {tag for tag, _ in parsed.elements} <= ELEMENTS
    for tag, attrs in parsed.elements:
        names = {name for name in attrs if name.startswith("on") or name in ("src", "srcset")}
        assert not names, (tag, names)
        assert tag != "a" or (attrs["href"] or "").startswith(("#", "history/")), attrs
        assert "alert" not in (attrs.get("style") or "") + (attrs.get("class") or "")
    assert "<script" not in drawn
    assert drawn.count("{{ 7 * 7 }}") > 20
    assert "\x1b" not in drawn
    assert "\u202e" not in drawn
    svgs = re.findall(r'<svg class="picture".*?</svg>', drawn, re.DOTALL)
    assert len(svgs) == 1
    assert len(list(ET.fromstring(svgs[0]).iter())) > 60


def test_secrets_in_a_history_do_not_reach_the_page() -> None:
    story = sample.Story(namespace="u", begin=sample.START)
    story.pod("a")
    story.wait(1)
    story.refuse("a", "dialing with password=hunter2hunter2 failed")
    scenario = Scenario(name="a", verdict=Verdict.PASS, message="", history="history/s1.jsonl")
    drawn = signoff.page(
        sample.blank(requirements=[Requirement(id="X-1", scenarios=[scenario])]), lambda _: iter(story.lines)
    )
    assert "dialing with password=[redacted]" in drawn
    assert "hunter2" not in drawn


def test_the_same_input_gives_the_same_page(bad: Path) -> None:
    before = page(bad)
    signoff.write(bad, read(bad))
    assert page(bad) == before


def test_the_page_stays_small(good: Path, bad: Path) -> None:
    scenarios = len(re.findall(r'<svg class="picture"', page(good)))
    assert scenarios >= 30
    assert len(page(good).encode()) / scenarios * 35 < 2_000_000
    assert len(page(bad).encode()) < 2_000_000


def test_a_full_page_leaves_out_pictures_of_what_went_well(bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff, "BUDGET", 60_000)
    signoff_page = signoff.page(read(bad), lambda path: lines(bad / path))
    assert 3 <= signoff_page.count('<svg class="picture"') < 10
    assert "not drawn, to keep the page small: history/CAP-4" in signoff_page
    blocking = signoff_page[signoff_page.index('id="RES-4"') :]
    assert blocking.index('<svg class="picture"') < blocking.index('id="RES-5"')


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("history/none.jsonl", "no picture: No such file or directory"),
        ("../../etc/passwd", "outside of the results"),
        ("/etc/passwd", "outside of the results"),
        ("broken.jsonl", "no picture: broken.jsonl: KeyError"),
        ("odd.jsonl", "no picture: odd.jsonl: TypeError"),
    ],
)
def test_a_history_that_cannot_be_drawn_costs_its_picture_only(tmp_path: Path, history: str, said: str) -> None:
    (tmp_path / "broken.jsonl").write_text('{"t": 1, "wall": "2026-11-30T09:14:02Z", "kind": "object"}\n')
    (tmp_path / "odd.jsonl").write_text("[1]\n")
    scenario = Scenario(name="a", verdict=Verdict.PASS, message="", history=history)
    record = sample.blank(verdict=RunVerdict.SUCCESS, requirements=[Requirement(id="X-1", scenarios=[scenario])])
    signoff.write(tmp_path, record)
    assert said in text(tmp_path)
    assert "1 of 1 core requirement holds" in text(tmp_path)


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    writer = sample.begin(tmp_path / "run")
    signoff.write(tmp_path / "run", writer.record)
    said = text(tmp_path / "run")
    assert "! interrupted" in said
    assert "so far 0 of 29 core requirements hold, 29 not run" in said
    assert "did not end" in said
    assert "Signature" not in said


def test_a_record_of_a_run_that_never_got_going_is_drawn(tmp_path: Path) -> None:
    record = Record(run_id="x", verdict=RunVerdict.ERROR, started=sample.START, errors=["no cluster:\nport in use"])
    signoff.write(tmp_path, record)
    said = text(tmp_path)
    assert "no cluster: port in use" in said
    assert "No requirement was selected." in said


def test_booked_findings_lead_to_the_scenario_they_were_made_in(bad: Path) -> None:
    drawn = page(bad)
    section = drawn[drawn.index('id="CAP-4"') : drawn.index('id="CAP-5"')]
    assert "found in RES-5" in section
    there = re.search(r'href="#(RES-5\.[^"]+)">Its picture', section)
    assert there
    assert f'id="{there[1]}"' in drawn
    assert "SELECT=RES-5" in drawn[drawn.index('id="blockers"') : drawn.index('id="tested"')]


def test_tables_say_what_their_headers_are_for(bad: Path) -> None:
    parsed = Parsed(page(bad))
    scopes = [attrs.get("scope") for tag, attrs in parsed.elements if tag == "th"]
    assert set(scopes) == {"col", "row"}
    assert all(attrs.get("aria-label") for tag, attrs in parsed.elements if tag == "svg" and attrs.get("role") == "img")


def test_verdicts_never_rely_on_colour(bad: Path) -> None:
    for verdict, glyph, word in (("fail", "✕", "fail"), ("pass", "✓", "pass"), ("not-supported", "∅", "not supported")):
        assert f'<span class="v {verdict}"><span class="g" aria-hidden="true">{glyph}</span>{word}</span>' in page(bad)


# --- contrast ---------------------------------------------------------------------------------------------------------


OPACITY = 0.8  # of a state in a picture


def _themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", CSS.read_text(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): ([^;]+);", block)) for block in blocks[:2])
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))


def _over(wash: str, below: tuple[float, ...]) -> tuple[float, ...]:
    *top, alpha = (float(part) for part in re.findall(r"[\d.]+", wash))
    return tuple(alpha * above / 255 + (1 - alpha) * under for above, under in zip(top, below, strict=True))


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    def luminance(colour: tuple[float, ...]) -> float:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_have_contrast(theme: str) -> None:
    colours = _themes()[theme]
    verdicts = [name.removesuffix("-bg") for name in colours if name.endswith("-bg")]
    assert len(verdicts) == 6
    texts = [("ink", "bg"), ("ink", "panel"), ("muted", "bg"), ("muted", "panel"), ("link", "bg"), ("link", "panel")]
    texts += [(name, ground) for name in verdicts for ground in ("bg", f"{name}-bg")]
    texts += [(name, f"{verdict}-bg") for name in ("ink", "muted", "link") for verdict in verdicts]
    fills = [name for name in colours if name.startswith("f-")]
    texts += [("ink", name) for name in fills]
    for front, ground in texts:
        assert _contrast(_rgb(colours[front]), _rgb(colours[ground])) >= 4.5, (theme, front, ground)
    washed = _over(colours["wash"], _over(colours["wash"], _rgb(colours["bg"])))
    for fill in fills:  # shaded by a witnessed fault, which shows through
        assert f"fill-opacity: {OPACITY};" in CSS.read_text().replace(": .", ": 0.")
        shaded = tuple(
            OPACITY * own + (1 - OPACITY) * below for own, below in zip(_rgb(colours[fill]), washed, strict=True)
        )
        assert _contrast(_rgb(colours["ink"]), shaded) >= 4.5, (theme, fill)
    for front in ("ink", "muted", "fail"):
        assert _contrast(_rgb(colours[front]), washed) >= 4.5, (theme, front)
    for edge in [name for name in colours if re.fullmatch(r"e-\w+|c\d|gap", name)]:
        assert _contrast(_rgb(colours[edge]), _rgb(colours["bg"])) >= 3, (theme, edge)
    assert _contrast(_rgb(colours["gap"]), _rgb(colours["bg"])) >= 4.5


def test_every_kind_of_state_has_its_colours_and_every_mark_its_shape() -> None:
    style, template = CSS.read_text(), (CSS.parent / signoff.PAGE).read_text()
    for kind in signoff.KINDS.keys() - signoff.MARKS:
        assert re.search(rf"\.k-{kind}\b", style), kind
    for kind in signoff.MARKS:
        assert f'id="m-{kind}"' in template


def test_dates_are_those_of_the_record(tmp_path: Path) -> None:
    waited = [Scenario(name=str(seconds), waited_seconds=seconds) for seconds in (58.0, 4.4)]
    row = Requirement(id="HARD-1", title="", level="core", scenarios=waited)
    record = sample.blank(requirements=[row], ended=sample.START + timedelta(minutes=7, seconds=5))
    signoff.write(tmp_path, record)
    said = "30 Nov 2026 09:21:07 UTC, after 7 min 5 s, 1 min 2 s of that waiting for the candidate"
    assert said in text(tmp_path)
