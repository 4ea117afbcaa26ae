package gang

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"unreserve.dev/reference/framework"
)

// byGang is the index of members.
const byGang = "gang"

// members watches Gangs and their members. The scheduler's own watch of Pods would not do: it leaves out those that have
// ended, and they count.
type members struct {
	pods, gangs cache.SharedIndexInformer
	client      dynamic.NamespaceableResourceInterface
}

// watchMembers tells `changed` of each gang whose object changed, or whose members came, went, were bound or may be tried
// now; `gone` is the name of a member that went. It tells `seen` of other changes of a member.
func watchMembers(
	handle framework.Handle, changed func(k key, gone string), seen func(k key, old, pod *v1.Pod),
) (*members, error) {
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	pods := informers.NewSharedInformerFactoryWithOptions(
		handle.ClientSet(), 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = Label }),
	)
	m := &members{
		pods:   pods.Core().V1().Pods().Informer(),
		gangs:  dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(Resource).Informer(),
		client: client.Resource(Resource),
	}
	if err := m.pods.AddIndexers(cache.Indexers{byGang: func(object any) ([]string, error) {
		if k, ok := keyOf(object.(*v1.Pod)); ok {
			return []string{k.String()}, nil
		}
		return nil, nil
	}}); err != nil {
		return nil, err
	}
	if _, err := m.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) {
			if k, ok := keyOf(now.(*v1.Pod)); ok {
				changed(k, "")
			}
		},
		UpdateFunc: func(old, now any) {
			before, after := old.(*v1.Pod), now.(*v1.Pod)
			k, ok := keyOf(after)
			if was, had := keyOf(before); had && was != k {
				changed(was, before.Name)
				before = nil
			}
			switch {
			case !ok:
			case before == nil || differs(memberOf(before), memberOf(after)):
				gone := ""
				if memberOf(after).going {
					gone = after.Name
				}
				changed(k, gone)
			default:
				seen(k, before, after)
			}
		},
		DeleteFunc: func(old any) {
			if unseen, ok := old.(cache.DeletedFinalStateUnknown); ok {
				old = unseen.Obj
			}
			if pod, ok := old.(*v1.Pod); ok {
				if k, ok := keyOf(pod); ok {
					changed(k, pod.Name)
				}
			}
		},
	}); err != nil {
		return nil, err
	}
	_, err = m.gangs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(now any) { changed(objectKey(now), "") },
		UpdateFunc: func(old, now any) {
			if specOf(old.(*unstructured.Unstructured)) != specOf(now.(*unstructured.Unstructured)) {
				changed(objectKey(now), "")
			}
		},
		DeleteFunc: func(old any) {
			if unseen, ok := old.(cache.DeletedFinalStateUnknown); ok {
				old = unseen.Obj
			}
			if _, ok := old.(*unstructured.Unstructured); ok {
				changed(objectKey(old), "")
			}
		},
	})
	return m, err
}

// start begins to watch, and waits a little for what exists already.
func (m *members) start(ctx context.Context) {
	const patience = 5 * time.Second
	go m.pods.RunWithContext(ctx)
	go m.gangs.RunWithContext(ctx)
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !cache.WaitForCacheSync(waiting.Done(), m.pods.HasSynced, m.gangs.HasSynced) {
		klog.FromContext(ctx).Info("Gangs are not known yet, going on without", "resource", Resource.String())
	}
}

func (m *members) synced() bool { return m.pods.HasSynced() && m.gangs.HasSynced() }

// of returns the members of a gang.
func (m *members) of(k key) []*v1.Pod {
	objects, _ := m.pods.GetIndexer().ByIndex(byGang, k.String())
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*v1.Pod))
	}
	return pods
}

// uids returns all members.
func (m *members) uids() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, pod := range m.pods.GetIndexer().List() {
		uids[pod.(*v1.Pod).UID] = true
	}
	return uids
}

// object returns a Gang, nil if there is none.
func (m *members) object(k key) *unstructured.Unstructured {
	object, exists, err := m.gangs.GetIndexer().GetByKey(k.String())
	if err != nil || !exists {
		return nil
	}
	return object.(*unstructured.Unstructured)
}

// keys returns all Gangs.
func (m *members) keys() []key {
	var keys []key
	for _, object := range m.gangs.GetIndexer().List() {
		keys = append(keys, objectKey(object))
	}
	return keys
}

// facts returns what is known of a gang.
func (m *members) facts(k key) facts {
	var f facts
	if object := m.object(k); object != nil {
		f.known, f.spec = true, specOf(object)
	}
	for _, pod := range m.of(k) {
		f.members = append(f.members, memberOf(pod))
	}
	return f
}

func objectKey(object any) key {
	gang := object.(*unstructured.Unstructured)
	return key{Namespace: gang.GetNamespace(), Name: gang.GetName()}
}

// differs says whether a change of a member may matter to the others.
func differs(before, after member) bool {
	before.ready, after.ready = false, false
	return before != after
}
