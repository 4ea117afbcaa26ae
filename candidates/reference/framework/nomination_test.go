package framework

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANominationIsWaitedForUntilItIsSeenOrOver(t *testing.T) {
	given := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for name, sample := range map[string]struct {
		now  v1.Pod
		over bool
	}{
		"not seen yet":         {*given, false},
		"on another node":      {v1.Pod{ObjectMeta: given.ObjectMeta, Status: v1.PodStatus{NominatedNodeName: "m"}}, false},
		"seen":                 {v1.Pod{ObjectMeta: given.ObjectMeta, Status: v1.PodStatus{NominatedNodeName: "n"}}, true},
		"bound, which ends it": {v1.Pod{ObjectMeta: given.ObjectMeta, Spec: v1.PodSpec{NodeName: "n"}}, true},
		"another Pod":          {v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, true},
	} {
		if over := nominationOver(&sample.now, given, "n"); over != sample.over {
			t.Errorf("%s: over is %t", name, over)
		}
	}
}
