"""The node image: the official one where a registry is reachable, else one made here from Debian packages and Go modules.

The folder `image` holds what goes into it beside binaries, `components` the modules that Kubernetes' own do not list.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from clusters.kind.machine import MachineError, docker, run
from clusters.local import build
from clusters.local.build import Component
from clusters.processes import Supervisor
from clusters.progress import Progress
from clusters.provider import ProviderError

HERE = Path(__file__).parent
COMPONENTS = HERE / "components"
FILES = HERE / "image"

# What kind's own source names as its default (pkg/apis/config/defaults of sigs.k8s.io/kind at the version pinned in
# components/kind). kind publishes others for other minors; give those by name.
OFFICIAL = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
}
OWN = "unreserve/node"

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


def components(kubernetes: str) -> dict[str, Component]:
    """Return every program of a minor, those for nodes and kind itself included.

    Raises:
        ProviderError: the minor is not supported.
    """
    found = build.components(kubernetes)
    for folder in sorted(COMPONENTS.iterdir()):
        found |= {component.name: component for component in build.read_module(folder)}
    return found


def own(kubernetes: str, progress: Progress) -> str:
    """Return the name of the image made here: its tag holds a digest over everything that goes in.

    Debian packages count by name: which versions of them were installed stands in /kind/packages of the image.

    Raises:
        ProviderError: there is no Go toolchain, so it cannot be told.
    """
    known = components(kubernetes)
    if absent := [name for name in NEEDED if name not in known]:
        raise ProviderError(f"clusters/local/components/kubernetes-{kubernetes} does not list {', '.join(absent)}")
    keys = []
    for component in (known[name] for name in NEEDED):
        toolchain = build.find_toolchain(component.go) or build.install_toolchain(component.go, progress)
        keys.append(build.cached(component, toolchain).parent.name)
    digest = hashlib.sha256(json.dumps([SUITE, PACKAGES, UNNEEDED, PROGRAMS, keys]).encode())
    for file in (Path(__file__), *sorted(path for path in FILES.rglob("*") if path.is_file())):
        digest.update(f"{file.relative_to(HERE)} {file.stat().st_mode & 0o777:o}\n".encode() + file.read_bytes())
    return f"{OWN}:{known['kubelet'].version}-{digest.hexdigest()[:12]}"


def present(image: str) -> bool:
    """Whether the Docker engine has an image.

    Raises:
        MachineError: it does not answer.
    """
    try:
        docker("image", "inspect", "--format", "{{.Id}}", image)
    except MachineError as error:
        if "No such image" in str(error):
            return False
        raise
    return True


def choose(kubernetes: str, progress: Progress) -> str:
    """Return the image to use unless the user names one: our own where it was made, else the official one.

    Raises:
        ProviderError: there is neither.
        MachineError: the Docker engine does not answer.
    """
    image = own(kubernetes, progress)
    if present(image):
        return image
    if kubernetes in OFFICIAL:
        return OFFICIAL[kubernetes]
    raise ProviderError(
        f"there is no node image for Kubernetes {kubernetes}: make one with `make kind-image KUBERNETES={kubernetes}`, "
        f"or, where a registry is reachable, name one: --kind-image kindest/node:v{kubernetes}.x@sha256:..."
    )


def make(kubernetes: str, progress: Progress, *, mirror: str = "") -> str:
    """Make our own image, unless it is there already, and return its name.

    `mirror` is the Debian archive to take packages from; without it, the one that apt uses here.

    Raises:
        ProviderError: something is missing, or a step failed.
        MachineError: Docker refuses.
    """
    image = own(kubernetes, progress)
    if present(image):
        return image
    if os.geteuid() != 0:
        raise ProviderError("a node image can only be made as root: debootstrap unpacks a whole Debian")
    known, started = components(kubernetes), time.monotonic()
    binaries = {name: build.ensure(known[name], progress) for name in NEEDED}
    with build.locked(build.cache() / "node" / image.replace("/", "-"), f"the node image {image}", progress):
        if not present(image):
            rootfs = _rootfs(mirror, progress)
            with Supervisor(Path(tempfile.mkdtemp(prefix="assembly-", dir=build.cache() / "node"))) as supervisor:
                _assemble(image, kubernetes, rootfs, binaries, supervisor, progress)
    progress.step(f"made {image} in {time.monotonic() - started:.0f} s")
    return image


def _rootfs(mirror: str, progress: Progress) -> Path:
    """Return a tar of a minimal Debian with our packages, from the cache where it was made before."""
    key = hashlib.sha256(json.dumps([SUITE, PACKAGES, UNNEEDED]).encode()).hexdigest()[:16]
    kept = build.cache() / "node" / f"debian-{key}"
    with build.locked(kept, "the installation of Debian packages", progress):
        if not kept.exists():
            if shutil.which("debootstrap") is None:
                raise ProviderError("debootstrap is missing: apt-get install debootstrap")
            mirror = mirror or _mirror()
            progress.step(f"installing Debian packages from {mirror}, once for this machine")
            with build.making(kept) as (supervisor, out, log):
                root = supervisor.state / "root"
                command = [
                    # In a mount namespace of its own: whatever ends it, no mount is left.
                    "unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
                    SUITE, str(root), mirror,
                ]  # fmt: skip
                process = supervisor.start("debootstrap", command, env=os.environ, log=log)
                build.finish(process, lambda lines: progress.tick(f"debootstrap: {lines[-1]}" if lines else ""))
                for folder in UNNEEDED:
                    shutil.rmtree(root / folder, ignore_errors=True)
                    (root / folder).mkdir(parents=True)
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


def _assemble(
    image: str, kubernetes: str, rootfs: Path, binaries: Mapping[str, Path], supervisor: Supervisor, progress: Progress
) -> None:
    progress.step(f"assembling {image}")
    state = supervisor.state
    root = state / "root"
    root.mkdir()
    run("tar", "--extract", f"--directory={root}", f"--file={rootfs}", timeout=SLOW)
    tags = _tags(binaries["kubeadm"], components(kubernetes)["kubelet"].version)
    _fill(root, binaries, tags, components(kubernetes))
    _write_images(state / "images.tar", root, binaries, tags)

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
            "--volume", f"{state / 'images.tar'}:/images.tar:ro", "--volume", f"{FILES / 'preload.sh'}:/preload.sh:ro",
            base, "sleep", "infinity",
        )  # fmt: skip
        docker("exec", container, "/preload.sh", timeout=SLOW)
        progress.tick("committing the image")
        changes = (
            "ENV container=docker", "STOPSIGNAL SIGRTMIN+3", 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]',
            "CMD []",
        )  # fmt: skip
        docker("commit", *(f"--change={change}" for change in changes), container, image, timeout=SLOW)
    finally:
        docker(*removal)


def _tags(kubeadm: Path, version: str) -> dict[str, str]:
    """Return the image names that this kubeadm asks for, by component: `etcd`, `pause`, `kube-proxy` and so on."""
    names = run(str(kubeadm), "config", "images", "list", f"--kubernetes-version={version}").split()
    return {re.sub(r".*/([^/]+):[^:]+$", r"\1", name): name for name in names}


def _fill(
    root: Path, binaries: Mapping[str, Path], tags: Mapping[str, str], known: Mapping[str, Component]
) -> None:
    for file in (path for path in (FILES / "files").rglob("*") if path.is_file()):
        target = root / file.relative_to(FILES / "files")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    config = root / "etc/containerd/config.toml"
    config.write_text(config.read_text().replace("@PAUSE@", tags["pause"]))
    for folder, names in PROGRAMS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(binaries[name], root / folder / name)
    (root / "kind" / "version").write_text(known["kubelet"].version)
    (root / "kind" / "components").write_text("".join(f"{name} {known[name].version}\n" for name in NEEDED))
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


def _write_images(archive: Path, root: Path, binaries: Mapping[str, Path], tags: Mapping[str, str]) -> None:
    """Write the component images as `docker save` would, without leaving them in the machine's engine."""
    images = [
        _Image(tags[name], {f"usr/local/bin/{name}": binaries[name]}, {}, []) for name in CONTROL_PLANE
    ]  # fmt: skip
    images += [
        _Image(tags["coredns"], {"coredns": binaries["coredns"]}, {}, ["/coredns"]),
        _Image(tags["pause"], {"catatonit": root / "usr/bin/catatonit"}, {}, ["/catatonit", "-P"]),
        _Image(
            "localhost/podnet:1", {"bin/busybox": root / "bin/busybox", "podnet.sh": FILES / "podnet" / "podnet.sh"},
            {"bin/sh": "busybox"}, ["/podnet.sh"],
        ),
        _proxy(tags["kube-proxy"], root, binaries["kube-proxy"]),
    ]  # fmt: skip
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
            tar.add(layer, f"{digest}.tar")
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


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    entry = _plain(tarfile.TarInfo(name))
    entry.type, entry.linkname, entry.size = kind, link, len(content)
    tar.addfile(entry, BytesIO(content))


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
