"""ISO: only the candidate's own Pods change."""

from fixtures import Baseline, Expect, Fences, Pool, Workload, requirement


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
    pool: Pool, workload: Workload, baseline: Baseline, expect: Expect
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
    baseline.broken_profile_is_refused()
    place_one_pod_for_each_node()
