package gang

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// statusWriter keeps the status of Gangs true. It runs in the leading scheduler.
type statusWriter struct {
	members *members
	remarks func(key) (why string, reserved int)
	queue   workqueue.TypedRateLimitingInterface[key]
}

func newStatusWriter(members *members, remarks func(key) (string, int)) *statusWriter {
	const firstRetry, lastRetry = 100 * time.Millisecond, 10 * time.Second
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstRetry, lastRetry)
	return &statusWriter{members: members, remarks: remarks, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// run writes until the context ends.
func (w *statusWriter) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	logger.Info("First scheduling cycle: the status of gangs is kept from now on")
	for _, k := range w.members.keys() {
		w.queue.Add(k)
	}
	go func() {
		<-ctx.Done()
		w.queue.ShutDown()
	}()
	for {
		k, over := w.queue.Get()
		if over {
			return
		}
		if err := w.write(ctx, k); err != nil {
			logger.Info("Status of a gang could not be written yet", "gang", k, "err", err)
			w.queue.AddRateLimited(k)
		} else {
			w.queue.Forget(k)
		}
		w.queue.Done(k)
	}
}

// write brings the status of one Gang up to date. It returns an error if it must be called again.
func (w *statusWriter) write(ctx context.Context, k key) error {
	const patience = 10 * time.Second
	object := w.members.object(k)
	if object == nil {
		return nil
	}
	var before Status
	if found, ok := object.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found, &before); err != nil {
			return err
		}
	}
	why, reserved := w.remarks(k)
	// API times have whole seconds.
	status := statusOf(w.members.facts(k), before, why, reserved, metav1.NewTime(time.Now().Truncate(time.Second)))
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	object = object.DeepCopy()
	if err := unstructured.SetNestedMap(object.Object, fields, "status"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = w.members.client.Namespace(k.Namespace).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
