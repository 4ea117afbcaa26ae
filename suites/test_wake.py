"""WAKE: every change that can help wakes the Pod that waits for it, and nothing else does."""

import pytest

from fixtures import Attempts, Expect, Faults, Fences, Pool, Workload, requirement

pytestmark = pytest.mark.usefixtures("no_flush")


@requirement("WAKE-1")
def test_a_label_is_added(pool: Pool, workload: Workload, expect: Expect) -> None:
    """A required label added to a node wakes the Pod that waits for it."""
    node = pool.add_gpu_node(network=False)
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("network")

    node.join_network()

    expect(waiting).bound_to(node)


@requirement("WAKE-2")
def test_a_taint_is_removed(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A taint removed wakes the Pod that does not tolerate it."""
    node = pool.add_gpu_node()
    node.taint("example.com/maintenance")
    fences.nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("taint")

    node.untaint("example.com/maintenance")

    expect(waiting).bound_to(node)


@requirement("WAKE-2")
def test_a_node_is_uncordoned(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A node uncordoned wakes the Pod that waits for room."""
    node = pool.add_gpu_node()
    node.cordon()
    node.until_tainted("node.kubernetes.io/unschedulable")
    fences.nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for()

    node.uncordon()
    node.until_untainted()

    expect(waiting).bound_to(node)


@requirement("WAKE-2")
def test_a_node_is_ready_again(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A node Ready again, tainted and untainted by the controller manager, wakes the Pod."""
    node = pool.add_gpu_node()
    node.set_ready(ready=False)
    node.until_tainted("node.kubernetes.io/not-ready")
    fences.nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("taint")

    node.set_ready(ready=True)
    node.until_untainted()

    expect(waiting).bound_to(node)


@requirement("WAKE-3")
def test_a_device_is_back(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """Allocatable GPUs that grow wake the Pod that waits for them."""
    node = pool.add_gpu_node(gpus=8)
    node.set_allocatable(gpus=0)
    fences.nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("gpu")

    node.set_allocatable(gpus=8)

    expect(waiting).bound_to(node)


@requirement("WAKE-4")
@pytest.mark.parametrize("end", ["deleted", "Succeeded", "Failed"])
def test_a_pod_makes_room(pool: Pool, workload: Workload, expect: Expect, end: str) -> None:
    """A Pod that is deleted, succeeds or fails wakes the Pod that waits for its GPUs."""
    node = pool.add_gpu_node(gpus=8)
    holder = workload.pod(gpus=8).create()
    expect(holder).bound_to(node)
    expect(holder).running()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("gpu")

    if end == "deleted":
        holder.delete()
    else:
        holder.finish(end)

    expect(waiting).bound_to(node)


@requirement("WAKE-5")
def test_a_node_is_added(pool: Pool, workload: Workload, expect: Expect) -> None:
    """A node that is added wakes the Pod for which no other had room."""
    full = pool.add_gpu_node(gpus=4)
    expect(workload.pod(gpus=4).create()).bound_to(full)
    waiting = workload.pod(gpus=4).create()
    expect(waiting).waiting_for("gpu")

    added = pool.add_gpu_node(gpus=4)

    expect(waiting).bound_to(added)


@requirement("WAKE-6")
def test_devices_are_published_later(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """Devices that the driver of a node publishes later wake the Pod that waits for them."""
    node = pool.add_gpu_node(gpus=0)
    fences.nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("gpu")

    node.publish_devices(8)

    expect(waiting).bound_to(node)
    expect(waiting).owning_devices()


@requirement("WAKE-7")
def test_a_scheduling_gate_is_lifted(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A gated Pod is left alone; once the gate is lifted it is bound."""
    node = pool.add_gpu_node(gpus=8)
    fence = fences.on_pods()
    gated = workload.pod(gpus=8, gated=True).create()
    expect(gated).gated()
    fence.close()
    expect(gated).not_tried()
    expect(gated).never_bound()

    gated.lift_gates()

    expect(gated).bound_to(node)


@requirement("WAKE-8")
def test_published_slots_grow(pool: Pool, workload: Workload, expect: Expect) -> None:
    """Slots that a node is published to have gained wake the Pod that waits for them."""
    node = pool.add_gpu_node(gpus=8, slots=1)
    holder = workload.pod(gpus=1, slots=1).create()
    expect(holder).bound_to(node)
    waiting = workload.pod(gpus=1, slots=1).create()
    expect(waiting).waiting_for("slots")

    node.set_slots(2)

    expect(waiting).bound_to(node)
    expect.node(node).slots_owned_by(holder, waiting)


@requirement("WAKE-9")
def test_the_reason_follows_the_cause(pool: Pool, workload: Workload, attempts: Attempts, expect: Expect) -> None:
    """At the next provoked attempt the condition names what blocks then."""
    node = pool.add_gpu_node(gpus=8, network=False)
    # Once it is bound the candidate has seen the node Ready, and has no taint to blame at first.
    expect(workload.pod(network=False, on=node).create()).bound_to(node)
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("network")

    with pool.others_on_network():
        node.set_allocatable(gpus=4)
        node.join_network()
        attempts.provoke(waiting)

        expect(waiting).unscheduled("gpu")
        expect(waiting).blames_no_longer("network")


@requirement("WAKE-10")
def test_changes_that_cannot_help_cause_no_attempt(
    pool: Pool, workload: Workload, fences: Fences, attempts: Attempts, expect: Expect
) -> None:
    """Heartbeats, annotations of other Pods and a node's unrelated label do not make it try a waiting Pod again."""
    node = pool.add_gpu_node(gpus=8)
    holder = workload.pod(gpus=8).create()
    expect(holder).bound_to(node)
    fences.nodes()  # the fence's own node is settled, for the candidate too: it wakes nobody later
    at_first = attempts.total("unschedulable")
    pod_fence, node_fence = fences.on_pods(), fences.on_nodes()
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("gpu")
    backoff = fences.on_nodes()
    # Counted before the first change: who tries `waiting` again for that one sits in a longer backoff after it.
    before = attempts.refused(least=at_first + 3)
    backoff.close()  # its Pod was refused later: once it is bound, no backoff hides that `waiting` was woken

    for beat in range(20):
        node.heartbeat()
        holder.annotate("example.com/beat", str(beat))
    pod_fence.close()
    node_fence.close()

    attempts.none_refused_since(before)


@requirement("WAKE-10")
def test_a_failing_pod_is_not_tried_in_a_storm(pool: Pool, workload: Workload, faults: Faults, expect: Expect) -> None:
    """A Pod whose binding is always denied is tried no more often than the backoff law allows."""
    pool.add_gpu_node(gpus=8)
    failing = workload.pod(gpus=8)

    with faults.bind.denied(failing):
        failing.create()
        expect(failing).bind_refused(at_least=5)
        expect(failing).within_backoff_law()


@requirement("WAKE-11")
def test_a_device_goes_offline_while_pods_wait(
    pool: Pool, workload: Workload, fences: Fences, attempts: Attempts, expect: Expect
) -> None:
    """Nobody is bound to a device that went offline, and the reason at the next attempt is true."""
    node = pool.add_gpu_node(gpus=8)
    holder = workload.pod(gpus=8).create()
    expect(holder).bound_to(node)
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("gpu")

    node.set_allocatable(gpus=0)
    fences.nodes()
    holder.delete()
    attempts.provoke(waiting)

    expect(waiting).unscheduled("gpu")
    expect(waiting).never_bound()
