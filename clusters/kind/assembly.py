"""Assembles a node image from Debian packages and Go modules, without a registry. Needs root, debootstrap and Docker.

The folder `image` holds what goes in beside packages and programs.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from clusters import cache
from clusters.kind.machine import MachineError, docker, run
from clusters.processes import Supervisor
from clusters.progress import Progress
from clusters.provider import ProviderError

FILES = Path(__file__).parent / "image"

# Its systemd still accepts cgroup v1.
SUITE = "bookworm"
PACKAGES = (
    "busybox-static", "ca-certificates", "catatonit", "conntrack", "ethtool", "iproute2", "iptables", "kmod",
    "libseccomp2", "nftables", "procps", "runc", "socat", "systemd",
)  # fmt: skip
# What debootstrap leaves behind and no node needs.
UNNEEDED = (
    "var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale",
    "usr/share/info",
)  # fmt: skip

# Programs of a node, by the folder they go to.
PROGRAMS = {
    "usr/bin": ("kubeadm", "kubectl", "kubelet"),
    "usr/local/bin": ("containerd", "containerd-shim-runc-v2", "crictl", "ctr"),
    "opt/cni/bin": ("host-local", "loopback", "portmap", "ptp"),
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
IN_IMAGES = (*CONTROL_PLANE, "coredns", "kube-proxy")
NEEDED = tuple(sorted({*IN_IMAGES, *(name for names in PROGRAMS.values() for name in names)}))

# Seconds. Docker copies a gigabyte here and there.
SLOW = 900.0


def assemble(
    image: str, programs: Mapping[str, Path], versions: Mapping[str, str], mirror: str, progress: Progress
) -> None:
    """Make a node image in the Docker engine. `programs` and `versions` are by name, all of NEEDED.

    Raises:
        ProviderError: something is missing, or a step failed.
        MachineError: Docker or another program refuses.
    """
    folder = cache.folder() / "node"
    rootfs = _rootfs(folder, mirror, progress)
    with Supervisor(Path(tempfile.mkdtemp(prefix="assembly-", dir=folder))) as supervisor:
        _put_together(image, programs, versions, rootfs, supervisor, progress)


def _rootfs(folder: Path, mirror: str, progress: Progress) -> Path:
    """Return a tar of a minimal Debian with our packages, from the cache where it was made before."""
    key = hashlib.sha256(json.dumps([SUITE, PACKAGES, UNNEEDED]).encode()).hexdigest()[:16]
    kept = folder / f"debian-{key}"
    with cache.locked(kept, "the installation of Debian packages", progress):
        if not kept.exists():
            if shutil.which("debootstrap") is None:
                raise ProviderError("debootstrap is missing: apt-get install debootstrap")
            mirror = mirror or _mirror()
            progress.step(f"installing Debian packages from {mirror}, once for this machine")
            with cache.making(kept) as (supervisor, out, log):
                root = supervisor.state / "root"
                command = [
                    # In a mount namespace of its own: whatever ends it, no mount is left.
                    "unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
                    SUITE, str(root), mirror,
                ]  # fmt: skip
                process = supervisor.start("debootstrap", command, env=os.environ, log=log)
                cache.finish(process, lambda lines: progress.tick(f"debootstrap: {lines[-1]}" if lines else ""))
                for unneeded in UNNEEDED:
                    shutil.rmtree(root / unneeded, ignore_errors=True)
                    (root / unneeded).mkdir(parents=True)
                run("tar", "--create", f"--directory={root}", f"--file={out / 'root.tar'}", ".", timeout=SLOW)
    return kept / "root.tar"


def _mirror() -> str:
    """Return the archive that apt is configured to use.

    Raises:
        ProviderError: there is none of the suite.
    """
    try:
        lines = run("apt-get", "indextargets", "--format", "$(RELEASE) $(CODENAME) $(COMPONENT) $(REPO_URI)",
                    "Created-By: Packages").splitlines()  # fmt: skip
    except MachineError:
        lines = []
    for release, codename, component, uri in (line.split(maxsplit=3) for line in lines if line.count(" ") > 2):  # noqa: PLR2004
        if SUITE in (release, codename) and component == "main":
            return uri
    raise ProviderError(f"apt knows no archive of Debian {SUITE} here; name one: --mirror URL")


def _put_together(
    image: str, programs: Mapping[str, Path], versions: Mapping[str, str], rootfs: Path, supervisor: Supervisor,
    progress: Progress,
) -> None:  # fmt: skip
    progress.step(f"assembling {image}")
    state = supervisor.state
    root = state / "root"
    root.mkdir()
    run("tar", "--extract", f"--directory={root}", f"--file={rootfs}", timeout=SLOW)
    tags = _tags(programs["kubeadm"], versions["kubelet"])
    _fill(root, programs, versions, tags["pause"])
    _write_archive(state / "images.tar", _images(root, programs, tags))

    progress.tick("importing the node's file system")
    run("tar", "--create", f"--directory={root}", f"--file={state / 'node.tar'}", ".", timeout=SLOW)
    base = docker("import", str(state / "node.tar"), timeout=SLOW).strip()

    container = f"unreserve-{state.name}"
    environment = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "DOCKER_HOST")}
    removal = ["rm", "--force", "--volumes", container]
    supervisor.at_death(["/usr/bin/env", "docker", *removal], environment)
    try:
        progress.tick("loading the component images")
        docker(
            "run", "--detach", "--name", container, "--privileged", "--network", "none",
            "--stop-signal", "SIGRTMIN+3",  # systemd's; commit takes it over, and takes no change of it
            "--volume", f"{state / 'images.tar'}:/images.tar:ro", "--volume", f"{FILES / 'preload.sh'}:/preload.sh:ro",
            base, "sleep", "infinity",
        )  # fmt: skip
        docker("exec", container, "/preload.sh", timeout=SLOW)
        progress.tick("committing the image")
        changes = (
            "ENV container=docker", 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]', "CMD []",
        )  # fmt: skip
        docker("commit", *(f"--change={change}" for change in changes), container, image, timeout=SLOW)
    finally:
        with contextlib.suppress(MachineError):  # never made
            docker(*removal)
        with contextlib.suppress(MachineError):  # in use, as it should be
            docker("image", "rm", base)


def _tags(kubeadm: Path, version: str) -> dict[str, str]:
    """Return the image names that this kubeadm asks for, by component: `etcd`, `pause`, `kube-proxy` and so on."""
    names = run(str(kubeadm), "config", "images", "list", f"--kubernetes-version={version}").split()
    return {re.sub(r".*/([^/]+):[^:]+$", r"\1", name): name for name in names}


def _fill(root: Path, programs: Mapping[str, Path], versions: Mapping[str, str], pause: str) -> None:
    for file in (path for path in (FILES / "files").rglob("*") if path.is_file()):
        target = root / file.relative_to(FILES / "files")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    config = root / "etc" / "containerd" / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("@PAUSE@", pause), encoding="utf-8")
    for folder, names in PROGRAMS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(programs[name], root / folder / name)
    (root / "kind" / "version").write_text(versions["kubelet"], encoding="utf-8")
    contents = "".join(f"{name} {version}\n" for name, version in versions.items())
    (root / "kind" / "components").write_text(contents, encoding="utf-8")
    shutil.copy(FILES / "setup.sh", root / "setup.sh")
    run("unshare", "--mount", "chroot", str(root), "/setup.sh")
    (root / "setup.sh").unlink()


@dataclass(frozen=True)
class _Image:
    """A component image of one layer: files by their path in it, symbolic links by theirs."""

    name: str
    files: Mapping[str, Path]
    links: Mapping[str, str]
    entrypoint: Sequence[str]


def _images(root: Path, programs: Mapping[str, Path], tags: Mapping[str, str]) -> list[_Image]:
    images = [_Image(tags[name], {f"usr/local/bin/{name}": programs[name]}, {}, []) for name in CONTROL_PLANE]
    images += [
        _Image(tags["coredns"], {"coredns": programs["coredns"]}, {}, ["/coredns"]),
        _Image(tags["pause"], {"catatonit": root / "usr/bin/catatonit"}, {}, ["/catatonit", "-P"]),
        _Image(
            "localhost/podnet:1", {"bin/busybox": root / "bin/busybox", "podnet.sh": FILES / "podnet" / "podnet.sh"},
            {"bin/sh": "busybox"}, ["/podnet.sh"],
        ),
        _proxy(tags["kube-proxy"], root, programs["kube-proxy"]),
    ]  # fmt: skip
    return images


def _write_archive(archive: Path, images: Sequence[_Image]) -> None:
    """Write images as `docker save` would, without leaving them in the machine's engine."""
    manifest = []
    with tarfile.open(archive, "w") as tar:
        for number, image in enumerate(images):
            layer = archive.with_name(f"layer-{number}.tar")
            _write_layer(layer, image)
            with layer.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            config = json.dumps({
                "architecture": _architecture(), "os": "linux", "config": {"Entrypoint": image.entrypoint},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            }).encode()  # fmt: skip
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            tar.add(layer, f"{digest}.tar", filter=_plain)
            _add(tar, name, config)
            manifest.append({"Config": name, "RepoTags": [image.name], "Layers": [f"{digest}.tar"]})
            layer.unlink()
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _proxy(name: str, root: Path, binary: Path) -> _Image:
    """Return kube-proxy's image: iptables and nft with just the libraries they and their plugins need."""
    plugins = root.glob("usr/lib/*/xtables/*.so")
    files = {"usr/local/bin/kube-proxy": binary}
    for program in (root / "usr/sbin/xtables-nft-multi", root / "usr/sbin/nft", *plugins):
        inside = str(program.relative_to(root))
        files[inside] = program
        for library in re.findall(r"/\S+", run("chroot", str(root), "ldd", f"/{inside}")):
            if library.startswith(("/lib", "/usr/lib")):
                real = run("chroot", str(root), "readlink", "-f", library).strip()
                files[library.strip("/")] = root / real.strip("/")
    links = {f"usr/sbin/{table}{verb}": "xtables-nft-multi" for table in ("iptables", "ip6tables")
             for verb in ("", "-save", "-restore")}  # fmt: skip
    return _Image(name, files, links, [])


def _write_layer(path: Path, image: _Image) -> None:
    with tarfile.open(path, "w") as tar:
        folders = {parent for inside in (*image.files, *image.links) for parent in Path(inside).parents}
        for folder in sorted({*folders, Path("run"), Path("tmp")} - {Path()}):
            _add(tar, str(folder), kind=tarfile.DIRTYPE)
        for inside, file in image.files.items():
            tar.add(file, inside, filter=_plain)
        for inside, target in image.links.items():
            _add(tar, inside, kind=tarfile.SYMTYPE, link=target)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make an entry the same wherever and whenever it is written."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755
    return entry


def _add(
    tar: tarfile.TarFile, name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> None:
    entry = _plain(tarfile.TarInfo(name))
    entry.type, entry.linkname, entry.size = kind, link, len(content)
    tar.addfile(entry, BytesIO(content))


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
