package slots

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	kubernetes "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/keymutex"

	"unreserve.dev/reference/network"
)

const (
	node   = "a"
	maxAge = 15 * time.Second
)

// world is an API server with one node, and what one scheduler has seen of it.
type world struct {
	objects    *fake.FakeDynamicClient
	pods       *kubernetes.Clientset
	seenPods   cache.Indexer
	capacities cache.Indexer
	seen       cache.Indexer // allocations
	view       *view
	reconciler *reconciler
	woken      int
}

func newWorld(t *testing.T, slots int) *world {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		network.Capacities: "NetworkCapacityList", network.Allocations: "NetworkAllocationList",
	}
	made := &world{
		objects:    fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, capacity(slots, time.Now())),
		pods:       kubernetes.NewClientset(),
		seenPods:   cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		capacities: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		seen:       cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{ownerIndex: byOwner}),
	}
	// The fake one counts no versions, and refuses nobody who is late.
	version := 0
	made.objects.PrependReactor("*", "networkallocations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var object runtime.Object
		switch action := action.(type) {
		case clienttesting.UpdateAction: // and CreateAction, which looks the same
			object = action.GetObject()
		default:
			return false, nil, nil
		}
		sent := object.(*unstructured.Unstructured)
		there, err := made.objects.Tracker().Get(network.Allocations, "", sent.GetName())
		if err == nil && there.(*unstructured.Unstructured).GetResourceVersion() != sent.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(network.Allocations.GroupResource(), sent.GetName(), errors.New("late"))
		}
		version++
		sent.SetResourceVersion(string(rune('0' + version)))
		return false, nil, nil
	})
	must(t, made.capacities.Add(capacity(slots, time.Now())))
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	must(t, nodes.Add(networkNode("true")))
	made.view = newView(newLedger(), made.capacities, made.seen)
	made.reconciler = &reconciler{
		client: made.pods, pods: corelisters.NewPodLister(made.seenPods), nodes: corelisters.NewNodeLister(nodes),
		view: made.view, store: store{objects: made.objects}, locks: keymutex.NewHashed(1), queue: newQueue(),
		wake: func(context.Context) { made.woken++ },
	}
	return made
}

func capacity(slots int, observed time.Time) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "network.unreserve.dev/v1", "kind": "NetworkCapacity", "metadata": map[string]any{"name": node},
		"status": map[string]any{"slots": int64(slots), "observedAt": observed.UTC().Format(time.RFC3339)},
	}}
}

func podOwner(uid string, slots int) network.Owner {
	return network.Owner{UID: types.UID(uid), Namespace: "n", Name: "pod-" + uid, Slots: slots}
}

// claim is what PreBind does.
func (w *world) claim(t *testing.T, owner network.Owner) error {
	t.Helper()
	w.view.ledger.begin(node, owner)
	allocation, err := w.reconciler.store.claim(t.Context(), node, owner, maxAge, func() {})
	if err == nil {
		w.view.wrote(allocation)
		w.view.ledger.claim(key{owner.UID, node})
	}
	return err
}

func (w *world) pod(t *testing.T, owner network.Owner, boundTo string) {
	t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID},
		Spec:       v1.PodSpec{NodeName: boundTo},
	}
	must(t, w.pods.Tracker().Add(pod))
	must(t, w.seenPods.Add(pod))
}

func (w *world) owners(t *testing.T) []network.Owner {
	t.Helper()
	allocation, err := w.reconciler.store.read(t.Context(), node)
	must(t, err)
	return allocation.Owners
}

func (w *world) free(pod string) int {
	return w.view.room(node, types.UID(pod), time.Now(), maxAge).free()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheLedgerIsKeptByPod(t *testing.T) {
	world := newWorld(t, 8)
	ledger := world.view.ledger
	ledger.reserve(node, podOwner("1", 2))
	ledger.reserve(node, podOwner("1", 2))
	ledger.reserve(node, podOwner("2", 3))
	if free := world.free("3"); free != 3 {
		t.Errorf("free: %d instead of 3: whoever reserves twice holds once", free)
	}
	if free := world.free("2"); free != 6 {
		t.Errorf("free for Pod 2: %d instead of 6: it does not compete with itself", free)
	}
	ledger.drop(key{"1", node})
	ledger.drop(key{"1", node})
	if free := world.free("3"); free != 5 {
		t.Errorf("free: %d instead of 5: whoever gives back twice gives back once", free)
	}
}

func TestAClaimIsCountedOnceAtEveryMoment(t *testing.T) {
	world := newWorld(t, 8)
	owner := podOwner("1", 2)
	world.view.ledger.reserve(node, owner)
	must(t, world.claim(t, owner))
	if free := world.free("2"); free != 6 {
		t.Errorf("claimed, not bound: free is %d instead of 6", free)
	}
	world.view.ledger.drop(key{"1", node}) // bound, and no informer has delivered the claim
	if free := world.free("2"); free != 6 {
		t.Errorf("bound: free is %d instead of 6", free)
	}
}

func TestOnlyOneOfTwoSchedulersGetsTheLastSlots(t *testing.T) {
	world := newWorld(t, 4)
	raced := false
	world.objects.PrependReactor("create", "networkallocations", func(clienttesting.Action) (bool, runtime.Object, error) {
		if raced {
			return false, nil, nil
		}
		raced = true // the rival writes between our read and our write
		rival := network.Allocation{Node: node}.With(podOwner("rival", 3)).Object()
		rival.SetResourceVersion("7")
		must(t, world.objects.Tracker().Create(network.Allocations, rival, ""))
		return false, nil, nil
	})
	lost := 0
	_, err := world.reconciler.store.claim(t.Context(), node, podOwner("1", 2), maxAge, func() { lost++ })
	if !errors.Is(err, errNoRoom) || lost != 2 {
		t.Errorf("%v, %d lost races instead of no room after 2", err, lost)
	}
	if owners := world.owners(t); len(owners) != 1 || owners[0].UID != "rival" {
		t.Errorf("owners: %v", owners)
	}
	must(t, world.claim(t, podOwner("2", 1)))
}

func TestNothingIsClaimedOnAnOldCapacity(t *testing.T) {
	world := newWorld(t, 4)
	must(t, world.objects.Tracker().Update(network.Capacities, capacity(4, time.Now().Add(-time.Minute)), ""))
	if err := world.claim(t, podOwner("1", 1)); !errors.Is(err, errStale) {
		t.Errorf("%v instead of %v", err, errStale)
	}
	must(t, world.capacities.Update(capacity(4, time.Now().Add(-time.Minute))))
	if world.view.room(node, "1", time.Now(), maxAge).current {
		t.Error("an old capacity passes the filter")
	}
}

func TestReleaseAsksWhatBecameOfThePod(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(*testing.T, *world, network.Owner)
		keeps   bool
		pending bool
	}{
		"bound there": {arrange: func(t *testing.T, w *world, o network.Owner) { w.pod(t, o, node) }, keeps: true},
		"not bound":   {arrange: func(t *testing.T, w *world, o network.Owner) { w.pod(t, o, "") }},
		"gone":        {arrange: func(*testing.T, *world, network.Owner) {}},
		"another of that name": {arrange: func(t *testing.T, w *world, o network.Owner) {
			o.UID = "other"
			w.pod(t, o, node)
		}},
		"no answer": {arrange: func(_ *testing.T, w *world, _ network.Owner) {
			w.pods.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewTimeoutError("no answer", 1)
			})
		}, keeps: true, pending: true},
	} {
		t.Run(name, func(t *testing.T) {
			world, owner := newWorld(t, 8), podOwner("1", 2)
			must(t, world.claim(t, podOwner("bystander", 3)))
			must(t, world.claim(t, owner))
			test.arrange(t, world, owner)

			world.reconciler.release(t.Context(), key{owner.UID, node})

			owners := world.owners(t)
			if keeps := len(owners) == 2; keeps != test.keeps || owners[0].UID != "bystander" {
				t.Errorf("owners are %v", owners)
			}
			if _, pending := world.view.ledger.totals(); (pending > 0) != test.pending {
				t.Errorf("%d releases are pending", pending)
			}
			if test.keeps != (world.free("2") == 3) {
				t.Errorf("%d slots are free", world.free("2"))
			}
		})
	}
}

func TestAReleaseThatFailedIsDoneLater(t *testing.T) {
	world, owner := newWorld(t, 8), podOwner("1", 2)
	must(t, world.claim(t, owner))
	world.pod(t, owner, "")
	down := true
	world.objects.PrependReactor("update", "networkallocations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return down, nil, apierrors.NewInternalError(errors.New("down"))
	})
	world.reconciler.release(t.Context(), key{"1", node})
	if _, pending := world.view.ledger.totals(); pending != 1 || world.free("2") != 6 {
		t.Fatalf("%d pending, %d free: the slots are not held", pending, world.free("2"))
	}
	down = false
	must(t, world.reconciler.reconcile(t.Context(), node))
	if slots, pending := world.view.ledger.totals(); slots+pending != 0 || world.free("2") != 8 {
		t.Errorf("%d held, %d pending, %d free", slots, pending, world.free("2"))
	}
}

func TestAClaimNobodySawIsForgottenAndWakesWhoWaits(t *testing.T) {
	world, owner := newWorld(t, 8), podOwner("1", 2)
	world.view.ledger.begin(node, owner) // the answer was lost, and so was the request
	world.pod(t, owner, "")
	world.reconciler.release(t.Context(), key{"1", node})
	if slots, _ := world.view.ledger.totals(); slots != 0 || world.woken != 1 {
		t.Errorf("%d slots held, woken %d times", slots, world.woken)
	}
}

func TestAReservationTakenUpAgainIsNotReleased(t *testing.T) {
	world, owner := newWorld(t, 8), podOwner("1", 2)
	must(t, world.claim(t, owner))
	world.pod(t, owner, "")
	world.view.ledger.release(key{"1", node})
	world.view.ledger.reserve(node, owner) // the Pod is tried again, here
	must(t, world.reconciler.reconcile(t.Context(), node))
	if owners := world.owners(t); len(owners) != 1 {
		t.Errorf("owners: %v", owners)
	}
}

func TestAPodThatEndsWhileItsBindingIsAnsweredLeavesNothing(t *testing.T) {
	world, owner := newWorld(t, 8), podOwner("1", 2)
	must(t, world.claim(t, owner)) // bound, and deleted again, before the answer is here
	must(t, world.reconciler.reconcile(t.Context(), node))
	if owners := world.owners(t); len(owners) != 1 {
		t.Errorf("it is on its way, and its owners are %v", owners)
	}
	world.reconciler.bound(node, owner)
	if world.reconciler.queue.Len() != 1 {
		t.Fatal("nobody looks at the node again")
	}
	must(t, world.reconciler.reconcile(t.Context(), node))
	if owners := world.owners(t); len(owners) != 0 {
		t.Errorf("owners: %v", owners)
	}
}

func TestOwnersAreReconciled(t *testing.T) {
	finished := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	deleting := &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	boundTo := func(node string) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{NodeName: node}} }
	for name, test := range map[string]struct {
		pod    *v1.Pod
		err    error
		due    bool
		wanted verdict
	}{
		"bound here":                  {pod: boundTo(node), wanted: keep},
		"bound here, release due":     {pod: boundTo(node), due: true, wanted: keep},
		"bound elsewhere":             {pod: boundTo("b"), wanted: drop},
		"waits":                       {pod: boundTo(""), wanted: keep},
		"waits, release due":          {pod: boundTo(""), due: true, wanted: drop},
		"finished":                    {pod: finished, wanted: drop},
		"deleted before it was bound": {pod: deleting, wanted: drop},
		"gone":                        {err: apierrors.NewNotFound(v1.Resource("pods"), "x"), wanted: drop},
		"not known":                   {err: errors.New("connection refused"), wanted: ask},
	} {
		owner := network.Owner{}
		if decided := decide(fateOf(owner, test.pod, test.err), node, test.due); decided != test.wanted {
			t.Errorf("%s: %v instead of %v", name, decided, test.wanted)
		}
	}
}

func TestAClaimFollowsThePod(t *testing.T) {
	world, owner := newWorld(t, 8), podOwner("1", 2)
	_, err := world.reconciler.store.write(t.Context(), network.Allocation{Node: node}.With(owner))
	must(t, err)
	world.pod(t, owner, "b")
	must(t, world.reconciler.reconcile(t.Context(), node))
	there, err := world.reconciler.store.read(t.Context(), "b")
	must(t, err)
	if owners := world.owners(t); len(owners) != 0 || there.Taken() != 2 {
		t.Errorf("here %v, there %v", owners, there.Owners)
	}
}

func TestAPodThatIsBoundAfterAllOwnsItsSlotsAgain(t *testing.T) {
	world, asks := newWorld(t, 8), podOwner("1", 2)
	for _, end := range []v1.PodPhase{v1.PodPending, v1.PodSucceeded} {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: asks.Namespace, Name: asks.Name, UID: asks.UID, Annotations: map[string]string{network.Annotation: "2"},
			},
			Spec: v1.PodSpec{NodeName: node}, Status: v1.PodStatus{Phase: end},
		}
		must(t, world.seenPods.Update(pod))
		_ = world.pods.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name)
		must(t, world.pods.Tracker().Add(pod))
		world.reconciler.landed(pod)
		world.reconciler.ended(pod)
		if world.reconciler.queue.Len() == 0 {
			t.Fatalf("nobody looks at the node")
		}
		must(t, world.reconciler.reconcile(t.Context(), node))
		if owners := world.owners(t); (len(owners) == 1) != (end == v1.PodPending) {
			t.Errorf("%s: owners %v", end, owners)
		}
	}
}
