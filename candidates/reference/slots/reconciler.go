package slots

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/keymutex"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/network"
)

// Wait before a release that failed is tried again.
const firstRetry, lastRetry = 100 * time.Millisecond, 5 * time.Second

// reconciler gives back what nobody owns any more. It runs in the leading scheduler: at its start, when an owner ends or
// lands elsewhere, and again after a release that failed. The API server has the last word on what became of a Pod.
type reconciler struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	nodes  corelisters.NodeLister
	view   *view
	store  store
	// locks are held, by node, while an allocation is read and written: a claim that finds itself written already must
	// not be overtaken by a release of this process.
	locks keymutex.KeyMutex
	queue workqueue.TypedRateLimitingInterface[string]
	// wake lets Pods that wait for slots be tried again, where slots came free without any event.
	wake func(context.Context)
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	return workqueue.NewTypedRateLimitingQueue(limiter)
}

// run works until the context ends.
func (r *reconciler) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, node := range r.view.allocated() {
		if fault.Is(fault.PhantomAfterRestart) {
			r.haunt(node)
		}
		if !fault.Is(fault.OrphanClaim) {
			r.queue.Add(node)
		}
	}
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	for {
		node, over := r.queue.Get()
		if over {
			return
		}
		if err := r.reconcile(ctx, node); err != nil {
			logger.Info("Slots could not be given back yet", "node", node, "err", err)
			r.later(node)
		} else {
			r.queue.Forget(node)
		}
		r.queue.Done(node)
	}
}

// release gives back what a Pod has reserved on a node, or leaves it to be done later.
func (r *reconciler) release(ctx context.Context, at key) {
	r.view.ledger.release(at)
	ctx = context.WithoutCancel(ctx) // even while the scheduler ends
	if err := r.reconcile(ctx, at.node); err != nil {
		klog.FromContext(ctx).Info("Slots stay held until it is known what became of the Pod",
			"podUID", at.pod, "node", at.node, "err", err)
		r.later(at.node)
	}
}

// later has a node looked at again.
func (r *reconciler) later(node string) {
	if !fault.Is(fault.UnreserveOnce) {
		r.queue.AddRateLimited(node)
	}
}

// bound ends the reservation of a Pod that was bound. If the Pod has ended meanwhile, its end was passed over.
func (r *reconciler) bound(node string, owner network.Owner) {
	r.view.ledger.drop(key{owner.UID, node})
	if r.suspicious(node, owner) {
		r.queue.Add(node)
	}
}

// reconcile brings the allocation of one node, and the releases that are due there, up to the facts. It returns an error
// if it must be called again.
func (r *reconciler) reconcile(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.locks.LockKey(node)
	defer func() { _ = r.locks.UnlockKey(node) }()

	allocation, err := r.store.read(ctx, node)
	if err != nil {
		return err
	}
	r.view.wrote(allocation)
	unsure := map[types.UID]error{}
	kept, changed := allocation, false
	for _, owner := range allocation.Owners {
		verdict, err := r.judge(ctx, node, owner)
		switch verdict {
		case drop:
			kept, changed = kept.Without(owner.UID), true
		case ask:
			unsure[owner.UID] = err
		}
		r.view.ledger.wrote(key{owner.UID, node}, true)
	}
	for _, owner := range r.unnoticed(node) {
		kept, changed = kept.With(owner), true
	}
	if changed {
		if kept, err = r.store.write(ctx, kept); err != nil {
			return err
		}
		r.view.wrote(kept)
	}
	r.settle(ctx, allocation, unsure)
	if len(kept.Owners) == 0 && kept.Version != "" && r.noNode(node) {
		if err := r.store.remove(ctx, kept); err != nil {
			return fmt.Errorf("remove the allocation of node %s, which is gone: %w", node, err)
		}
	}
	var errs []error
	for _, err := range unsure {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// settle ends the releases of a node that are done, given the allocation as it was before.
func (r *reconciler) settle(ctx context.Context, before network.Allocation, unsure map[types.UID]error) {
	silently := false
	for pod, entry := range r.view.ledger.on(before.Node) {
		if _, open := unsure[pod]; entry.phase != releasing || open {
			continue
		}
		if _, shown := before.Owner(pod); !shown {
			silently = true
		}
		r.view.ledger.drop(key{pod, before.Node})
		// It may have landed here since it was asked about, and was passed over because it still held something.
		now, err := r.pods.Pods(entry.owner.Namespace).Get(entry.owner.Name)
		if err == nil && now.UID == pod && r.usesUnowned(now, before.Node) {
			r.queue.Add(before.Node)
		}
	}
	if silently {
		r.wake(ctx)
	}
}

// verdict is what becomes of an owner.
type verdict int

const (
	keep verdict = iota
	drop
	ask // again later
)

// judge decides about one owner, and moves its claim to where the Pod has landed.
func (r *reconciler) judge(ctx context.Context, node string, owner network.Owner) (verdict, error) {
	entry, held := r.view.ledger.get(key{owner.UID, node})
	if held && entry.phase != releasing {
		return keep, nil // it is on its way
	}
	if held && fault.Is(fault.ReleaseOnAmbiguousBind) {
		return drop, nil
	}
	if !held && !r.suspicious(node, owner) {
		return keep, nil
	}
	pod, err := r.client.CoreV1().Pods(owner.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	fate := fateOf(owner, pod, err)
	decided := decide(fate, node, held)
	if decided == ask {
		return ask, fmt.Errorf("what became of Pod %s/%s: %w", owner.Namespace, owner.Name, err)
	}
	if decided == drop && fate.node != "" {
		if err := r.adopt(ctx, fate.node, owner); err != nil {
			return ask, err
		}
	}
	return decided, nil
}

// fate is what became of an owner. A node says where it is bound.
type fate struct {
	known, gone bool
	node        string
}

// fateOf reads the answer of the API server about an owner.
func fateOf(owner network.Owner, pod *v1.Pod, err error) fate {
	switch {
	case apierrors.IsNotFound(err):
		return fate{known: true, gone: true}
	case err != nil:
		return fate{}
	case pod.UID != owner.UID, finished(pod), pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		return fate{known: true, gone: true}
	}
	return fate{known: true, node: pod.Spec.NodeName}
}

// decide says what becomes of an owner on a node; `due` if its slots there are to be given back.
func decide(fate fate, node string, due bool) verdict {
	switch {
	case !fate.known:
		return ask
	case fate.gone:
		return drop
	case fate.node == node:
		return keep
	case fate.node != "":
		return drop // and move
	case due:
		return drop
	}
	return keep // alive and undecided: it may have been claimed by a scheduler that ended before it bound
}

// adopt makes a Pod an owner on the node that it is bound to, whatever the capacity there: it uses the slots already.
func (r *reconciler) adopt(ctx context.Context, node string, owner network.Owner) error {
	for range claimTries {
		allocation, err := r.store.read(ctx, node)
		if err != nil {
			return err
		}
		if _, owns := allocation.Owner(owner.UID); owns {
			return nil
		}
		written, err := r.store.write(ctx, allocation.With(owner))
		if err == nil {
			r.view.wrote(written)
			return nil
		}
		if !overtaken(err) {
			return err
		}
	}
	return fmt.Errorf("move of the claim of Pod %s/%s to node %s was overtaken", owner.Namespace, owner.Name, node)
}

// unnoticed returns the Pods that use slots of a node and own none there, whatever its capacity.
func (r *reconciler) unnoticed(node string) []network.Owner {
	var found []network.Owner
	all, _ := r.pods.List(labels.Everything()) // from memory: it cannot fail
	for _, pod := range all {
		if r.usesUnowned(pod, node) {
			asked, _ := network.Asked(pod)
			found = append(found, owner(pod, asked))
		}
	}
	return found
}

// usesUnowned says whether a Pod is bound to a node, asks for slots and has none there: a binding that was given up was
// applied after all.
func (r *reconciler) usesUnowned(pod *v1.Pod, node string) bool {
	if fault.Is(fault.ReleaseOnAmbiguousBind) {
		return false
	}
	asked, err := network.Asked(pod)
	uses := err == nil && asked > 0 && pod.Spec.NodeName == node && !finished(pod)
	return uses && !r.view.holds(node, pod.UID)
}

// suspicious says whether the informer does not show an owner as alive, and bound to the node or not bound at all.
func (r *reconciler) suspicious(node string, owner network.Owner) bool {
	pod, err := r.pods.Pods(owner.Namespace).Get(owner.Name)
	if err != nil || pod.UID != owner.UID || finished(pod) {
		return true
	}
	return pod.Spec.NodeName != node && (pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil)
}

func (r *reconciler) noNode(node string) bool {
	_, err := r.nodes.Get(node)
	return apierrors.IsNotFound(err)
}

// changed looks at the owners of an allocation that somebody wrote.
func (r *reconciler) changed(allocation network.Allocation) {
	for _, owner := range allocation.Owners {
		if r.suspicious(allocation.Node, owner) {
			r.queue.Add(allocation.Node)
			return
		}
	}
}

// ended looks for slots that a Pod owned.
func (r *reconciler) ended(pod *v1.Pod) {
	for _, node := range r.view.owning(pod.UID) {
		r.queue.Add(node)
	}
}

// landed looks for slots that a Pod owns where it is not, and for those that it uses and does not own.
func (r *reconciler) landed(pod *v1.Pod) {
	for _, node := range r.view.owning(pod.UID) {
		if node != pod.Spec.NodeName {
			r.queue.Add(node)
		}
	}
	if r.usesUnowned(pod, pod.Spec.NodeName) {
		r.queue.Add(pod.Spec.NodeName)
	}
}

// waiting returns the Pods that are not bound and ask for slots, by UID.
func waiting(pods corelisters.PodLister) map[string]*v1.Pod {
	found := map[string]*v1.Pod{}
	all, _ := pods.List(labels.Everything()) // from memory: it cannot fail
	for _, pod := range all {
		if asked, err := network.Asked(pod); pod.Spec.NodeName == "" && err == nil && asked > 0 {
			found[string(pod.UID)] = pod
		}
	}
	return found
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
