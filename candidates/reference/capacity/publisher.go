package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/network"
)

const (
	// patience is how long one request to the API server may take.
	patience = 10 * time.Second
	// retry is how soon a refresh that failed is made again.
	retry = 500 * time.Millisecond
)

var (
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

	published = metrics.NewCounter(&metrics.CounterOpts{
		Name: "network_capacity_published_total", Help: "Capacities written.", StabilityLevel: metrics.ALPHA,
	})
	failed = metrics.NewCounter(&metrics.CounterOpts{
		Name: "network_capacity_failures_total", Help: "Writes and reads that failed.", StabilityLevel: metrics.ALPHA,
	})
)

// publisher copies what the hardware of each node says into its NetworkCapacity: at once when it changes, and again in
// each period, from a fresh list. So a capacity is never confirmed by what an old watch has delivered.
type publisher struct {
	nodes   metadata.Interface
	objects dynamic.NamespaceableResourceInterface
	refresh time.Duration
	listed  atomic.Bool // whether every capacity was published once
	watches func() bool // whether changes are delivered
}

func newPublisher(nodes metadata.Interface, objects dynamic.Interface, refresh time.Duration) *publisher {
	return &publisher{nodes: nodes, objects: objects.Resource(network.Capacities), refresh: refresh}
}

// run publishes until the context ends. All writes are made here, one after the other.
func (p *publisher) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	changes := make(chan *metav1.PartialObjectMetadata)
	if err := p.watch(ctx, changes); err != nil {
		return err
	}
	for {
		next := p.refresh
		if err := p.all(ctx); err == nil {
			p.listed.Store(true)
		} else {
			next = min(next, retry)
			logger.Error(err, "Capacities not published", "nextTry", next)
		}
		timer := time.NewTimer(next)
		for due := false; !due; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
				due = true
			case node := <-changes:
				if err := p.one(ctx, node, time.Now()); err != nil {
					logger.Error(err, "Capacity not published", "node", node.Name, "nextTry", p.refresh)
				}
			}
		}
	}
}

// ready says whether every capacity is published, and changes are followed.
func (p *publisher) ready() bool { return p.listed.Load() && p.watches() }

// watch sends the nodes whose slots change; those that are gone carry a deletion time stamp.
func (p *publisher) watch(ctx context.Context, changes chan<- *metav1.PartialObjectMetadata) error {
	send := func(node *metav1.PartialObjectMetadata) {
		select {
		case changes <- node:
		case <-ctx.Done():
		}
	}
	factory := metadatainformer.NewSharedInformerFactory(p.nodes, 0)
	handler, err := factory.ForResource(nodes).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { send(now.(*metav1.PartialObjectMetadata)) },
		UpdateFunc: func(old, now any) {
			before, after := old.(*metav1.PartialObjectMetadata), now.(*metav1.PartialObjectMetadata)
			if before.Annotations[network.Annotation] != after.Annotations[network.Annotation] {
				send(after)
			}
		},
		DeleteFunc: func(old any) {
			if unseen, ok := old.(cache.DeletedFinalStateUnknown); ok {
				old = unseen.Obj
			}
			if node, ok := old.(*metav1.PartialObjectMetadata); ok {
				gone := node.DeepCopy()
				gone.Annotations = nil
				send(gone)
			}
		},
	})
	if err != nil {
		return err
	}
	p.watches = handler.HasSynced
	factory.Start(ctx.Done())
	return nil
}

// all confirms the capacity of every node that has slots, and removes the others.
func (p *publisher) all(ctx context.Context) error {
	at := time.Now()
	list, err := p.listNodes(ctx)
	if err != nil {
		failed.Inc()
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	there := map[string]bool{}
	for _, node := range list.Items {
		if _, known := network.Has(&node); known {
			there[node.Name] = true
			errs = append(errs, p.one(ctx, &node, at))
		}
	}
	errs = append(errs, p.removeOthers(ctx, there))
	return errors.Join(errs...)
}

func (p *publisher) listNodes(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.nodes.Resource(nodes).List(ctx, metav1.ListOptions{})
}

func (p *publisher) removeOthers(ctx context.Context, there map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := p.objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		failed.Inc()
		return fmt.Errorf("list capacities: %w", err)
	}
	var errs []error
	for _, capacity := range list.Items {
		if !there[capacity.GetName()] {
			errs = append(errs, p.remove(ctx, capacity.GetName()))
		}
	}
	return errors.Join(errs...)
}

// one publishes what a node was seen to have at a moment. A node that does not say how many slots it has gets no capacity.
func (p *publisher) one(ctx context.Context, node *metav1.PartialObjectMetadata, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	slots, known := network.Has(node)
	if !known {
		return p.remove(ctx, node.Name)
	}
	err := p.write(ctx, node.Name, slots, at)
	if apierrors.IsNotFound(err) {
		if err = p.create(ctx, node); err == nil {
			err = p.write(ctx, node.Name, slots, at)
		}
	}
	if err != nil {
		failed.Inc()
		return fmt.Errorf("capacity of node %s: %w", node.Name, err)
	}
	published.Inc()
	return nil
}

func (p *publisher) write(ctx context.Context, node string, slots int, at time.Time) error {
	patch, err := json.Marshal(map[string]any{
		"status": map[string]any{"slots": slots, "observedAt": at.UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return err
	}
	_, err = p.objects.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (p *publisher) create(ctx context.Context, node *metav1.PartialObjectMetadata) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(network.Capacities.GroupVersion().String())
	object.SetKind("NetworkCapacity")
	object.SetName(node.Name)
	// The garbage collector removes it with the node, even while this controller is down.
	object.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	})
	_, err := p.objects.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *publisher) remove(ctx context.Context, node string) error {
	err := p.objects.Delete(ctx, node, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	failed.Inc()
	return fmt.Errorf("remove the capacity of node %s: %w", node, err)
}
