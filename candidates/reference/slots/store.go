package slots

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"unreserve.dev/reference/fault"
	"unreserve.dev/reference/network"
)

const (
	// patience is how long one request to the API server may take.
	patience = 10 * time.Second
	// claimTries is how often a claim is tried again when somebody else was faster.
	claimTries = 5
)

// errNoRoom says that the node has too few free slots for a claim.
var errNoRoom = errors.New("too few free slots")

// errStale says that the capacity of the node is not known well enough for a claim.
var errStale = errors.New("no current capacity")

// store reads and writes the API objects themselves, not what informers delivered of them.
type store struct {
	objects dynamic.Interface
}

// claim makes a Pod an owner of slots, and returns the allocation that shows it. Two schedulers never own one slot: the
// API server accepts only one of two updates that read the same version. `lost` is called for each lost race.
//
// An error other than errNoRoom and errStale leaves open whether the claim was written.
func (s store) claim(
	ctx context.Context, node string, owner network.Owner, maxAge time.Duration, lost func(),
) (network.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for try := range claimTries {
		slots, err := s.current(ctx, node, maxAge)
		if err != nil {
			return network.Allocation{}, err
		}
		allocation, err := s.read(ctx, node)
		if err != nil {
			return network.Allocation{}, err
		}
		if had, owns := allocation.Owner(owner.UID); owns && had.Slots == owner.Slots {
			return allocation, nil
		}
		blind := fault.Is(fault.NoAtomicCheck) && try > 0
		if claimed := allocation.With(owner); claimed.Taken() <= slots || blind {
			allocation = claimed
		} else {
			lost()
			return network.Allocation{}, errNoRoom
		}
		written, err := s.write(ctx, allocation)
		if err == nil {
			return written, nil
		}
		if !overtaken(err) {
			return network.Allocation{}, err
		}
		lost()
	}
	return network.Allocation{}, fmt.Errorf("claim of slots of node %s was overtaken %d times", node, claimTries)
}

func (s store) current(ctx context.Context, node string, maxAge time.Duration) (int, error) {
	object, err := s.objects.Resource(network.Capacities).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, errStale
	}
	if err != nil {
		return 0, fmt.Errorf("read the capacity of node %s: %w", node, err)
	}
	capacity := network.CapacityOf(object)
	if !capacity.Current(time.Now(), maxAge) {
		return 0, errStale
	}
	return capacity.Slots, nil
}

// read returns the allocation of a node; without a version and owners where there is none.
func (s store) read(ctx context.Context, node string) (network.Allocation, error) {
	object, err := s.objects.Resource(network.Allocations).Get(ctx, node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return network.Allocation{Node: node}, nil
	}
	if err != nil {
		return network.Allocation{}, fmt.Errorf("read the allocation of node %s: %w", node, err)
	}
	return network.AllocationOf(object), nil
}

// write creates or replaces an allocation, unless it has changed since it was read.
func (s store) write(ctx context.Context, allocation network.Allocation) (network.Allocation, error) {
	client, object := s.objects.Resource(network.Allocations), allocation.Object()
	var err error
	if allocation.Version == "" {
		object, err = client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = client.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return network.Allocation{}, fmt.Errorf("write the allocation of node %s: %w", allocation.Node, err)
	}
	return network.AllocationOf(object), nil
}

// remove deletes an allocation that nobody needs any more, unless it has changed since it was read.
func (s store) remove(ctx context.Context, allocation network.Allocation) error {
	same := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &allocation.Version}}
	err := s.objects.Resource(network.Allocations).Delete(ctx, allocation.Node, same)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// overtaken says whether a write was refused because somebody else wrote first.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
