// Package slots is the plugin NetworkSlots: Pods that ask for network slots, or for the platform's resource, run only on
// nodes of the high-speed network, and a slot has one owner.
//
// The way of a slot: Filter looks at what is known (view), Reserve holds it in this process (ledger), PreBind claims it in
// the NetworkAllocation of the node (store), and once the Pod is bound the allocation alone shows the owner. Whatever fails
// on the way is given back by Unreserve, and what Unreserve cannot decide by the reconciler.
package slots

import (
	"context"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/keymutex"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/framework"
	"unreserve.dev/reference/network"
)

// Name is the name of the plugin.
const Name = "NetworkSlots"

const allocationLocks = 64

// Slots is what the profiles of one process share: there is one ledger, whatever the number of profiles.
type Slots struct {
	handle     framework.Handle
	view       *view
	store      store
	reconciler *reconciler
	// lead starts, at its first call, what only the leading scheduler may do.
	lead func()
}

// NewPlugin makes the plugin of one profile. It can be used once Follow was called.
func (s *Slots) NewPlugin(_ context.Context, raw runtime.Object, handle framework.Handle) (framework.Plugin, error) {
	args, err := readArgs(raw)
	if err != nil {
		return nil, err
	}
	if s.handle == nil {
		client, err := dynamic.NewForConfig(handle.KubeConfig())
		if err != nil {
			return nil, err
		}
		s.handle, s.store = handle, store{objects: client}
	}
	if fault.Is(fault.TrustsStaleSnapshot) {
		args.MaxAge.Duration = math.MaxInt64
	}
	made := &plugin{args: args, slots: s, handle: handle}
	made.PreBindsIf = func(state framework.CycleState, _ *v1.Pod) bool { return cycleOf(state) != nil }
	switch {
	case fault.Is(fault.RelaxAfterRetries), fault.Is(fault.StaleLabels):
		made.memory = newMemory()
	case fault.Is(fault.StaleReason):
		made.memory = newMemory()
		return &parrot{made}, nil
	}
	return made, nil
}

// Follow connects to the informers of the scheduler. They must be the very ones that wake its Pods: with informers of our
// own, an event could wake a Pod before its object is seen here, and the Pod would then wait for ever.
func (s *Slots) Follow(ctx context.Context, factory dynamicinformer.DynamicSharedInformerFactory) error {
	if s.handle == nil {
		return nil // no profile has the plugin
	}
	capacities := factory.ForResource(network.Capacities).Informer()
	allocations := factory.ForResource(network.Allocations).Informer()
	if err := allocations.AddIndexers(cache.Indexers{ownerIndex: byOwner}); err != nil {
		return err
	}
	s.view = newView(newLedger(), capacities.GetIndexer(), allocations.GetIndexer())
	registerMetrics(s.view)

	core := s.handle.SharedInformerFactory().Core().V1()
	s.reconciler = &reconciler{
		client: s.handle.ClientSet(), pods: core.Pods().Lister(), nodes: core.Nodes().Lister(),
		view: s.view, store: s.store, locks: keymutex.NewHashed(allocationLocks), queue: newQueue(), wake: s.wake,
	}
	s.lead = sync.OnceFunc(func() { s.reconcile(ctx) })
	return s.watch(core.Pods().Informer(), core.Nodes().Informer(), allocations)
}

func (s *Slots) watch(pods, nodes, allocations cache.SharedIndexInformer) error {
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			if before, after := old.(*v1.Pod), now.(*v1.Pod); before.Spec.NodeName != after.Spec.NodeName {
				s.reconciler.landed(after)
			}
		},
		DeleteFunc: func(old any) {
			if pod, ok := object(old).(*v1.Pod); ok {
				s.reconciler.ended(pod)
			}
		},
	}); err != nil {
		return err
	}
	if _, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) {
			if fault.Is(fault.WakeOnHeartbeat) {
				s.wake(context.Background())
			}
		},
		DeleteFunc: func(old any) {
			if node, ok := object(old).(*v1.Node); ok && s.view.allocation(node.Name).Version != "" {
				s.reconciler.queue.Add(node.Name)
			}
		},
	}); err != nil {
		return err
	}
	_, err := allocations.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) {
			if !fault.Is(fault.OrphanClaim) {
				s.reconciler.changed(network.AllocationOf(now.(*unstructured.Unstructured)))
			}
		},
		UpdateFunc: func(_, now any) { s.reconciler.changed(network.AllocationOf(now.(*unstructured.Unstructured))) },
		DeleteFunc: func(old any) {
			if allocation, ok := object(old).(*unstructured.Unstructured); ok {
				s.view.gone(allocation.GetName())
			}
		},
	})
	return err
}

// reconcile is begun by the first scheduling cycle: it is the sign that this scheduler leads.
func (s *Slots) reconcile(ctx context.Context) {
	klog.FromContext(ctx).Info("First scheduling cycle: slots without an owner are given back from now on")
	go s.reconciler.run(ctx)
	if fault.Is(fault.Polls) {
		go func() {
			for range time.Tick(time.Second) {
				s.wake(ctx)
			}
		}()
	}
}

// wake lets every Pod that waits for slots be tried again. It passes over their backoff, so it is for rare occasions.
func (s *Slots) wake(ctx context.Context) {
	if pods := waiting(s.reconciler.pods); len(pods) > 0 {
		s.handle.Activate(klog.FromContext(ctx), pods)
	}
}

// object returns what an informer says was deleted.
func object(deleted any) any {
	if unseen, ok := deleted.(cache.DeletedFinalStateUnknown); ok {
		return unseen.Obj
	}
	return deleted
}
