"""ROB: odd input and missing rights end neither the candidate nor the service to others."""

from fixtures import Candidate, Expect, Faults, OddNodes, OddPods, Pool, Workload, requirement


@requirement("ROB-1")
def test_odd_pods_that_fit_are_bound(pool: Pool, workload: Workload, odd_pods: OddPods, expect: Expect) -> None:
    """However large, empty or long what it carries: a Pod that fits is bound, and so are the others."""
    pool.add_gpu_nodes(2, gpus=8)

    for odd in odd_pods.that_fit():
        expect(odd.create()).bound()

    expect(workload.pod(gpus=1).create()).bound_at_once()


@requirement("ROB-1")
def test_pods_that_fit_nowhere_say_so(pool: Pool, workload: Workload, odd_pods: OddPods, expect: Expect) -> None:
    """A request beyond any node, or an affinity that nothing can meet, waits with a reason; others are bound."""
    pool.add_gpu_nodes(2, gpus=8)

    unfit = [*odd_pods.that_fit_nowhere(), *odd_pods.with_odd_affinity()]
    for odd in unfit:
        expect(odd.create()).waiting_with_a_reason()

    expect(workload.pod(gpus=8).create()).bound_at_once()
    expect(*unfit).never_bound()


@requirement("ROB-1")
def test_malformed_words_are_read_or_refused(pool: Pool, workload: Workload, odd_pods: OddPods, expect: Expect) -> None:
    """What a Pod says to this candidate in a form that nobody means is read somehow or refused with a reason."""
    pool.add_gpu_nodes(6, gpus=8)

    for odd in odd_pods.of_doubtful_meaning():
        expect(odd.create()).bound_or_waiting_with_a_reason()

    expect(workload.pod(gpus=1).create()).bound_at_once()


@requirement("ROB-2")
def test_odd_nodes_hide_no_good_one(pool: Pool, workload: Workload, odd_nodes: OddNodes, expect: Expect) -> None:
    """Among nodes without labels, capacity or room the Pod waits for true reasons, and then takes the good node."""
    odd_nodes.without_labels()
    odd_nodes.without_capacity()
    odd_nodes.with_nothing_allocatable()
    odd_nodes.with_odd_taints()
    odd_nodes.with_malformed_words()
    pool.add_gpu_node(gpus=0)

    waiting = workload.pod(gpus=1).create()
    expect(waiting).unscheduled("network", "gpu", "taint")
    expect(waiting).never_bound()

    good = pool.add_gpu_node(gpus=8)
    expect(waiting).bound_to(good)


@requirement("ROB-2")
def test_nodes_with_room_for_pods_only(
    pool: Pool, workload: Workload, odd_nodes: OddNodes, odd_pods: OddPods, expect: Expect
) -> None:
    """Nodes whose CPU, memory and GPUs are 0 are no trouble where scores are shares of them."""
    good = pool.add_gpu_node(gpus=8)
    pods_only = [odd_nodes.with_room_for_pods_only() for _ in range(2)]

    expect(odd_pods.asking_for_nothing().create()).bound_to(good, *pods_only)
    expect(workload.pod(gpus=8).create()).bound_to(good)


@requirement("ROB-2")
def test_strangely_named_nodes_are_used(workload: Workload, odd_nodes: OddNodes, expect: Expect) -> None:
    """A number, an address, the longest name there can be: the node's name is no reason."""
    nodes = odd_nodes.strangely_named()

    filling = workload.pods(len(nodes), gpus=8)
    for pod in filling:
        pod.create()

    expect(*filling).bound_to(*nodes)


@requirement("ROB-5")
def test_a_sum_beyond_any_number_is_not_bound(
    pool: Pool, workload: Workload, odd_pods: OddPods, expect: Expect
) -> None:
    """What containers ask for together is more than any node has, even where no 64-bit number can hold it."""
    pool.add_gpu_nodes(2, gpus=8)

    overflowing = [odd.create() for odd in odd_pods.whose_sums_overflow()]
    expect(*overflowing).waiting_with_a_reason()
    expect(*overflowing).never_bound()

    expect(workload.pod(gpus=8).create()).bound_at_once()


@requirement("ROB-3")
def test_the_right_to_bind_is_missing(
    pool: Pool, workload: Workload, faults: Faults, candidate: Candidate, expect: Expect
) -> None:
    """It says that it may not bind, and runs on or ends loudly; with the right given back the Pod is bound."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with candidate.may_end_loudly(), faults.rights.missing("bind") as missing:
        pod.create()
        expect(pod).bind_refused(at_least=1)
        candidate.says_it_is_forbidden(missing, about=pod)

    expect(pod).bound_to(node)
    expect.node(node).fully_usable()


@requirement("ROB-3")
def test_the_right_to_write_events_is_missing(
    pool: Pool, workload: Workload, faults: Faults, candidate: Candidate, expect: Expect
) -> None:
    """Without events it goes on binding, and says in its log that it may not write them; later ones are written."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=4)

    with candidate.may_end_loudly(), faults.rights.missing("events") as missing:
        expect(pod.create()).bound_to(node)
        candidate.says_it_is_forbidden(missing)

    later = workload.pod(gpus=4).create()
    expect(later).bound_to(node)
    expect(later).told_success()


@requirement("ROB-4")
def test_the_right_to_renew_its_lease_is_missing(
    pool: Pool, workload: Workload, faults: Faults, candidate: Candidate, expect: Expect
) -> None:
    """A leader that may not renew its Lease says so and stands down as declared; with the right back it leads again."""
    node = pool.add_gpu_node(gpus=8)

    with candidate.electing():
        with candidate.may_end_loudly(), faults.rights.missing("leases") as missing:
            candidate.says_it_is_forbidden(missing)
            candidate.stands_down()
            pod = workload.pod(gpus=8).create()
        candidate.leads()
        expect(pod).bound_to(node)
