"""A node image is known by all that goes in, and its component images can be read by containerd."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from clusters import golang
from clusters.golang import Program, Toolchain
from clusters.kind import assembly, node_image
from clusters.local import build
from clusters.progress import Silent
from clusters.provider import ProviderError


@pytest.fixture(autouse=True)
def go(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"GOVERSION": "go1.99.0", "GOHOSTOS": "linux", "GOHOSTARCH": "amd64"}
    monkeypatch.setattr(golang, "find_toolchain", lambda _: Toolchain(Path("go"), "a test", facts))


@pytest.mark.parametrize("minor", build.minors())
def test_every_minor_lists_what_a_node_needs(minor: str) -> None:
    name = node_image.own(minor, Silent())

    assert name.startswith(f"unreserve/node:v{minor}.")
    assert name == node_image.own(minor, Silent())


def test_another_file_or_another_component_makes_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = node_image.own(build.NEWEST, Silent())
    shutil.copytree(assembly.FILES, tmp_path / "image")
    monkeypatch.setattr(node_image, "HERE", tmp_path)
    monkeypatch.setattr(assembly, "FILES", tmp_path / "image")
    monkeypatch.setattr(assembly, "__file__", shutil.copy(assembly.__file__, tmp_path))
    assert node_image.own(build.NEWEST, Silent()) == before

    (tmp_path / "image" / "files" / "etc" / "crictl.yaml").write_text("else")
    other_file = node_image.own(build.NEWEST, Silent())
    monkeypatch.setattr(golang, "FLAGS", (*golang.FLAGS, "-race"))

    assert len({before, other_file, node_image.own(build.NEWEST, Silent())}) == 3


def test_a_minor_that_lacks_a_program_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    known = node_image.components(build.NEWEST)
    monkeypatch.setattr(node_image, "components", lambda _: {k: v for k, v in known.items() if k != "kubelet"})

    with pytest.raises(ProviderError, match=f"kubernetes-{build.NEWEST} does not list kubelet"):
        node_image.own(build.NEWEST, Silent())


def test_versions_of_kind_and_its_official_image_belong_together() -> None:
    """The official name was read in kind's source at this version: whoever raises the version reads it again."""
    kind: Program = node_image.components(build.NEWEST)["kind"]

    assert (kind.package, kind.version) == ("sigs.k8s.io/kind", "v0.33.0")
    assert node_image.OFFICIAL[build.NEWEST].startswith("kindest/node:v1.37.0@sha256:a1ed56cf")


def test_a_component_image_is_one_layer_the_same_whenever_it_is_written(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh")
    image = assembly._Image(
        "registry.example/one:v1", {"bin/program": program}, {"bin/sh": "program"}, ["/bin/program"]
    )
    contents = []
    for name in ("first.tar", "second.tar"):
        program.touch()
        assembly._write_archive(tmp_path / name, [image])
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]

    with tarfile.open(tmp_path / "first.tar") as archive:
        (described,) = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(archive.extractfile(described["Config"]))  # type: ignore[arg-type]
        layer = archive.extractfile(described["Layers"][0])
        with tarfile.open(fileobj=layer) as files:
            listed = {entry.name: entry for entry in files}
    assert described["RepoTags"] == ["registry.example/one:v1"]
    assert config["config"]["Entrypoint"] == ["/bin/program"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{described['Layers'][0].removesuffix('.tar')}"]
    assert listed["bin/program"].mode == 0o755
    assert listed["bin/sh"].linkname == "program"
