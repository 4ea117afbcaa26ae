"""The matrix file: what it means, and what is refused."""

from pathlib import Path

import pytest

from nightly import matrix
from nightly.matrix import MatrixError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one.yaml", "two.yaml", "scenarios/x", "copies/one.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def written(folder: Path, text: str) -> Path:
    file = folder / "matrix.yaml"
    file.write_text(text)
    return file


GOOD = """\
candidates: [one.yaml, two.yaml]
kubernetes: ["1.36", "1.37"]
providers: [local, kind]
suites: [scenarios]
exclude:
- {providers: [kind], kubernetes: ["1.36"]}
settings:
- {select: RES, minutes: 5}
- {candidates: [two.yaml], providers: [local], iterations: 3, seed: 7}
- {candidates: [two.yaml], kubernetes: ["1.37"], select: WAKE-1}
"""


def test_a_matrix_is_every_candidate_on_every_provider_and_minor_but_what_is_excluded(folder: Path) -> None:
    cells = {cell.name: cell for cell in matrix.load(written(folder, GOOD))}
    assert list(cells) == [
        "one-local-1.36", "one-local-1.37", "one-kind-1.37", "two-local-1.36", "two-local-1.37", "two-kind-1.37",
    ]  # fmt: skip
    assert cells["two-local-1.37"].arguments() == [
        str(folder / "scenarios"), "--candidate", str(folder / "two.yaml"), "--provider", "local",
        "--kubernetes", "1.37", "--nightly", "--select", "WAKE-1", "--iterations", "3", "--seed", "7",
    ]  # fmt: skip
    assert [cells[name].select for name in ("one-local-1.37", "two-local-1.36")] == ["RES", "RES"]
    assert {cell.minutes for cell in cells.values()} == {5}
    assert cells["two-kind-1.37"].seed is None


def test_the_shipped_matrix_has_each_candidate_on_its_minors_and_plain_commands() -> None:
    cells = matrix.load(ROOT / "nightly.yaml")
    assert len(cells) == 23
    assert " ".join(cells[-1].arguments()) == (
        "suites --candidate candidates/native-gang.yaml --provider local --kubernetes 1.37 --nightly"
    )


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "said"),
    [
        ('"1.36", "1.37"', "1.36", 2, "kubernetes[0]", "in quotes"),
        ('"1.36", "1.37"', '"1.12"', 2, "kubernetes[0]", "'1.12' is not one of"),
        ('["1.36", "1.37"]', "[]", 2, "kubernetes", "at least 1"),
        ('["1.36", "1.37"]', '"1.37"', 2, "kubernetes", "valid list"),
        ("[local, kind]", "[local, eks]", 3, "providers[1]", "'local' or 'kind'"),
        ("suites: [scenarios]", "suite: [scenarios]", 4, "suite", "not permitted"),
        ("suites: [scenarios]", "suites: [gone]", 4, "suites[0]", "there is no 'gone'"),
        ("suites: [scenarios]", "providers: [local]", 4, "providers", "stands twice"),
        ("[one.yaml, two.yaml]", "[one.yaml, gone.yaml]", 1, "candidates[1]", "there is no 'gone.yaml'"),
        ("two.yaml", "copies/one.yaml", 1, "", "two cells are called one-kind-1.37, one-local-1.36"),
        ("[local, kind]", "[local]", 6, "exclude[0]", "not in the matrix: kind"),
        ("{providers: [kind], k", "{provider: [kind], k", 6, "exclude[0].provider", "not permitted"),
        ('{providers: [kind], kubernetes: ["1.36"]}', "{}", 5, "exclude", "leaves no cell"),
        ("select: RES", "select: [RES]", 8, "settings[0].select", "valid string"),
        ("iterations: 3", 'iterations: "3"', 9, "settings[1].iterations", "valid integer"),
        ("iterations: 3", "iterations: 0", 9, "settings[1].iterations", "greater than or equal to 1"),
        ("seed: 7", "seed: true", 9, "settings[1].seed", "valid integer"),
        ("minutes: 5", "minutes: null", 8, "settings[0].minutes", "valid number"),
        ("minutes: 5", "minutes: 0", 8, "settings[0].minutes", "greater than 0"),
    ],
)
def test_a_mistake_is_refused_with_file_line_and_field(
    folder: Path, before: str, after: str, line: int, field: str, said: str
) -> None:
    assert before in GOOD
    file = written(folder, GOOD.replace(before, after))
    with pytest.raises(MatrixError) as refused:
        matrix.load(file)
    where = f"{file}:{line}: {field}: " if field else f"{file}:{line}: "
    assert any(each.startswith(where) and said in each for each in str(refused.value).splitlines()), refused.value


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "0 YAML documents"), ("a: 1\n---\nb: 1\n", "2 YAML documents"), ("a: [", "is no YAML"), ("[]", "Matrix")],
)
def test_what_is_no_matrix_at_all_is_refused(folder: Path, text: str, said: str) -> None:
    with pytest.raises(MatrixError, match=said):
        matrix.load(written(folder, text))


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(MatrixError, match=r"nowhere\.yaml: there is no such file"):
        matrix.load(folder / "nowhere.yaml")
