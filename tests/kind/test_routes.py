"""Cluster addresses never leave the machine, and the machine is left as it was found."""

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kind import machine
from clusters.kind.machine import PODS, SERVICES, MachineError, Routes
from tests.kind.conftest import DEFAULT, FakeMachine

BOTH = [str(SERVICES), str(PODS)]


def test_missing_routes_stand_while_held_and_are_gone_afterwards(fake: FakeMachine) -> None:
    routes = Routes()

    routes.hold()
    assert fake.routes == BOTH
    routes.release()

    assert fake.routes == []


def test_routes_that_stood_before_stay(fake: FakeMachine) -> None:
    fake.set_routes(DEFAULT, {"type": "unreachable", "dst": str(SERVICES)}, {"type": "blackhole", "dst": "10.0.0.0/8"})
    routes = Routes()

    routes.hold()
    routes.release()

    assert fake.routes == [str(SERVICES)]
    assert not any("add" in call or "del" in call for call in fake.calls)


def test_the_last_of_several_runs_removes_them(fake: FakeMachine) -> None:
    first, second = Routes(), Routes()
    first.hold()
    second.hold()

    first.release()
    assert fake.routes == BOTH
    second.release()

    assert fake.routes == []


def test_they_stay_while_any_kind_cluster_is_left(fake: FakeMachine) -> None:
    routes = Routes()
    routes.hold()
    fake.program("docker", "echo 0123456789ab")

    routes.release()
    assert fake.routes == BOTH

    fake.program("docker", "")
    again = Routes()
    again.hold()
    again.release()
    assert fake.routes == []


def test_they_stay_where_docker_cannot_say_what_is_left(fake: FakeMachine) -> None:
    routes = Routes()
    routes.hold()
    fake.program("docker", "echo gone >&2; exit 1")

    routes.release()

    assert fake.routes == BOTH


@pytest.mark.parametrize(
    "route",
    [
        {"dst": "10.96.0.0/16", "dev": "eth1"},
        {"dst": "10.0.0.0/8", "gateway": "192.0.2.9", "dev": "tun0"},
        {"dst": "10.244.7.0/24", "dev": "eth1"},
        {"dst": "10.96.0.10", "dev": "eth1"},
    ],
)
def test_addresses_that_are_in_use_here_are_left_alone(fake: FakeMachine, route: dict[str, str]) -> None:
    fake.set_routes(DEFAULT, route)

    with pytest.raises(MachineError, match=rf"this machine routes {route['dst']}.* no cluster can be created here"):
        Routes().hold()

    assert fake.routes == []


def test_what_lies_inside_a_route_elsewhere_decides(fake: FakeMachine) -> None:
    kept = [{"type": "unreachable", "dst": network} for network in BOTH]
    fake.set_routes(DEFAULT, {"dst": "10.0.0.0/8", "dev": "tun0"}, *kept)
    routes = Routes()

    routes.hold()
    routes.release()

    assert fake.routes == BOTH


def test_a_machine_that_refuses_them_gets_no_cluster_and_is_told_how(fake: FakeMachine) -> None:
    text = fake.folder / "bin" / "ip"
    listing = text.read_text().splitlines()[-1]
    fake.program("ip", f'[ "$2" = add ] && {{ echo "Operation not permitted" >&2; exit 2; }}\n{listing}')

    with pytest.raises(MachineError) as refused:
        Routes().hold()

    assert "Operation not permitted" in str(refused.value)
    assert f"As root: ip route add unreachable {SERVICES}; ip route add unreachable {PODS}" in str(refused.value)
    assert fake.routes == []


def test_a_run_that_was_killed_holds_them_no_longer(fake: FakeMachine) -> None:
    """The kernel releases the lock of a dead process; what it added is still noted."""
    program = (
        "from pathlib import Path; import os, signal; from clusters.kind import machine; "
        f"machine.STATE = Path({str(machine.STATE)!r}); machine.Routes().hold(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert killed.returncode < 0
    assert fake.routes == BOTH

    machine.remove_unused_routes()

    assert fake.routes == []


def test_containers_are_looked_for_until_none_appears_any_more(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "RESCAN", 0.0)
    # The engine is still at a request of a client that was killed: the second container comes later.
    fake.program(
        "docker",
        f"""
        cd {fake.folder}
        case "$1" in
        ps) [ -f first ] || {{ touch first; echo aaa; exit; }}
            [ -f second ] || {{ touch second; exit; }}
            [ -f third ] || {{ touch third; echo bbb; exit; }} ;;
        esac
        """,
    )

    machine.remove("one")

    removed = [call for call in fake.calls if call.startswith("docker rm")]
    assert removed == ["docker rm --force --volumes aaa", "docker rm --force --volumes bbb"]
