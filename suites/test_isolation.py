"""ISO: only the candidate's own Pods change."""

from typing import Literal

import pytest

from fixtures import (
    Attempts,
    Baseline,
    DefaultScheduler,
    Expect,
    Faults,
    Fences,
    Node,
    Pod,
    Pool,
    Versions,
    Workload,
    requirement,
)


@requirement("ISO-1")
def test_pods_of_another_scheduler_are_left_alone(
    pool: Pool, workload: Workload, fences: Fences, expect: Expect
) -> None:
    """The candidate binds its own Pods and writes to no Pod that names another scheduler."""
    pool.add_gpu_nodes(2, gpus=8)
    foreign = [workload.pod(gpus=1, scheduler="another-scheduler", kind="foreign").create() for _ in range(3)]

    own = [workload.pod(gpus=1).create() for _ in range(3)]
    expect(*own).bound()
    fences.nodes()

    expect(*foreign).untouched_by_the_candidate()


@requirement("ISO-4")
def test_a_name_that_nobody_serves_waits(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A Pod whose schedulerName nobody serves is left alone and listed in the report."""
    pool.add_gpu_node(gpus=8)
    orphan = workload.pod(gpus=1, scheduler="nobody-serves-this", kind="orphan").create()

    expect(workload.pod(gpus=1).create()).bound()
    fences.nodes()

    expect(orphan).untouched_by_the_candidate()
    expect(orphan).never_bound()
    expect(orphan).listed_as_waiting()


@requirement("ISO-7")
def test_the_default_profile_stays_as_it_was(
    pool: Pool, workload: Workload, baseline: Baseline, versions: Versions, expect: Expect
) -> None:
    """With the canary as one more profile the default one has the same configuration and places Pods the same way."""
    nodes = pool.add_gpu_nodes(3, gpus=8)

    def place_one_pod_for_each_node() -> None:
        for node in nodes:
            pod = workload.pod(gpus=1, prefers=node, scheduler=baseline.scheduler_name).create()
            expect(pod).bound_to(node)

    with baseline.instead_of_the_candidate() as alone:
        before = baseline.profile(alone)
        place_one_pod_for_each_node()

    baseline.unchanged_since(before)
    place_one_pod_for_each_node()
    versions.broken_ones_are_refused()
    place_one_pod_for_each_node()


@requirement("ISO-2")
@pytest.mark.parametrize(
    ("fault", "times"), [("killed", 1), ("frozen", 1), ("killed", 3)], ids=["killed", "frozen", "crash-looping"]
)
def test_the_default_scheduler_does_not_need_the_candidate(
    pool: Pool,
    workload: Workload,
    faults: Faults,
    default_scheduler: DefaultScheduler,
    expect: Expect,
    fault: Literal["killed", "frozen"],
    times: int,
) -> None:
    """While the candidate is down, frozen or ends again and again, default workloads are scheduled as before."""
    default_scheduler.require_own_process()
    nodes = pool.add_gpu_nodes(2, gpus=16)
    expect(workload.pod(gpus=1).create()).bound()

    def place_one_pod_for_each_node() -> None:
        for node in nodes:
            pod = default_scheduler.pod(prefers=node).create()
            expect(pod).bound_at_once()
            expect(pod).bound_to(node)

    place_one_pod_for_each_node()
    for _ in range(times):
        with getattr(faults.process, fault)():
            place_one_pod_for_each_node()
        place_one_pod_for_each_node()

    expect(workload.pod(gpus=1).create()).bound()


@requirement("ISO-3")
def test_what_default_workloads_ask_for_holds_before_during_and_after(
    pool: Pool, workload: Workload, default_scheduler: DefaultScheduler, fences: Fences, expect: Expect
) -> None:
    """Node affinity, taints and the border of the pool hold for default workloads without and with the candidate."""
    taint = "example.com/maintenance"
    inside, outside = pool.add_gpu_node(gpus=8), pool.add_gpu_node(gpus=8, network=False)
    tainted = pool.new_gpu_node(gpus=8, network=False, taint=taint)
    stayed: list[tuple[Pod, Node]] = []
    kept_out = [default_scheduler.pod(on=inside, outside_the_pool=True), default_scheduler.pod(on=tainted)]

    def place_one_pod_for_each_rule() -> None:
        for pod, node in [
            (default_scheduler.pod(outside_the_pool=True), outside),
            (default_scheduler.pod(on=tainted, tolerates=taint), tainted),
            (default_scheduler.pod(on=inside), inside),
        ]:
            expect(pod.create()).bound_to(node)
            stayed.append((pod, node))

    with default_scheduler.alone():
        place_one_pod_for_each_rule()
        for pod in kept_out:
            pod.create()
            expect(pod).waiting_with_a_reason()

    expect(workload.pod(gpus=2).create()).bound_to(inside)
    expect(workload.pod(gpus=16).create()).waiting_with_a_reason()
    place_one_pod_for_each_rule()
    fences.nodes()

    with default_scheduler.alone():
        place_one_pod_for_each_rule()

    for pod, node in stayed:
        expect(pod).still_bound_to(node)
    expect(*kept_out).never_bound()


@requirement("ISO-5")
def test_the_default_workload_lands_as_without_the_candidate(
    pool: Pool, workload: Workload, default_scheduler: DefaultScheduler, fences: Fences, expect: Expect
) -> None:
    """The same default workload on the same nodes lands the same way with and without the candidate, Pod by Pod."""
    nodes = pool.add_gpu_nodes(3, gpus=8)

    def the_same_workload() -> list[Pod]:
        pods = [default_scheduler.pod(prefers=node) for node in nodes for _ in range(2)]
        return [pod.create() for pod in pods]

    with default_scheduler.alone():
        without = the_same_workload()
        for pod, node in zip(without, [node for node in nodes for _ in range(2)], strict=True):
            expect(pod).bound_to(node)
        for pod in without:
            pod.delete()
    expect(workload.pod(gpus=1).create()).bound()
    with_it = the_same_workload()

    expect(*with_it).landed_as(without)
    fences.on_pods().close()
    expect(*with_it).bound_by(default_scheduler.name, default_scheduler.usernames)


@requirement("ISO-6")
def test_preemption_stays_inside_the_pool_and_below_the_priority(
    pool: Pool, workload: Workload, default_scheduler: DefaultScheduler, expect: Expect
) -> None:
    """Only Pods of less priority, on nodes that the preemptor may use, make room for it."""
    inside, elsewhere = pool.add_gpu_node(gpus=8), pool.add_gpu_node(gpus=8, network=False)
    low, high = workload.priority_class(100), workload.priority_class(1000)
    bystander = default_scheduler.pod(gpus=8, on=elsewhere, priority=low).create()
    peer, victim = workload.pod(gpus=4, priority=high).create(), workload.pod(gpus=4, priority=low).create()
    expect(bystander).bound_to(elsewhere)
    expect(peer, victim).bound_to(inside)

    preemptor = workload.pod(gpus=4, priority=high).create()

    expect(preemptor).bound_to(inside)
    expect(victim).evicted()
    expect(peer).still_bound_to(inside)
    expect(bystander).still_bound_to(elsewhere)


@requirement("ISO-6")
def test_nobody_is_evicted_for_a_pod_that_would_not_fit(
    pool: Pool, workload: Workload, attempts: Attempts, expect: Expect
) -> None:
    """A Pod that would not fit although all of less priority were gone has no victims."""
    nodes = pool.add_gpu_nodes(2, gpus=8)
    low, high = workload.priority_class(100), workload.priority_class(1000)
    bound = [(workload.pod(gpus=4, on=node, priority=priority), node) for node in nodes for priority in (low, high)]
    for pod, node in bound:
        expect(pod.create()).bound_to(node)

    too_large = workload.pod(gpus=8, priority=high).create()
    expect(too_large).waiting_for("gpu")
    attempts.provoke(too_large, times=2)

    for pod, node in bound:
        expect(pod).still_bound_to(node)
    expect(too_large).never_bound()


@requirement("ISO-6")
def test_a_nomination_does_not_outlive_its_reason(
    pool: Pool, workload: Workload, attempts: Attempts, expect: Expect
) -> None:
    """A Pod nominated to a node that is no longer eligible for it is nominated no longer, once it was tried again."""
    node = pool.add_gpu_node(gpus=8)
    low, high = workload.priority_class(100), workload.priority_class(1000)
    victim, preemptor = workload.pod(gpus=8, priority=low), workload.pod(gpus=8, priority=high)
    with victim.kept_by_finalizer():
        expect(victim.create()).bound_to(node)
        expect(preemptor.create()).nominated_to(node)
        expect(victim).evicted()

        node.leave_network()
        attempts.provoke(preemptor)
        expect(preemptor).nominated_no_longer()
    expect(preemptor).never_bound()
