// Command capacity-controller publishes how many network slots each node has. It knows nothing of Pods: who owns slots is
// the schedulers' affair.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Requests a second to the API server: one for each node in each refresh, and reserve.
const qps, burst = 200, 400

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the address of the API server and the credentials")
	refresh := flag.Duration("refresh", 3*time.Second, "how often each capacity is confirmed")
	listen := flag.String("listen", "127.0.0.1:10460", "address of /readyz, /healthz and /metrics")
	klog.InitFlags(nil)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *refresh, *listen); err != nil {
		klog.FromContext(ctx).Error(err, "Ended")
		klog.Flush()
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, refresh time.Duration, listen string) error {
	if refresh <= 0 {
		return errors.New("--refresh must be positive")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = qps, burst, "capacity-controller"
	nodes, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	publisher := newPublisher(nodes, objects, refresh)
	legacyregistry.MustRegister(published, failed)

	served := make(chan error, 1)
	endpoints := &http.Server{Addr: listen, Handler: endpoints(publisher), ReadHeaderTimeout: refresh}
	go func() { served <- endpoints.ListenAndServe() }()
	worked := make(chan error, 1)
	go func() { worked <- publisher.run(ctx) }()
	select {
	case err = <-served:
		err = fmt.Errorf("--listen: %w", err)
	case err = <-worked:
	}
	return errors.Join(err, endpoints.Close())
}

func endpoints(publisher *publisher) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/healthz", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, "ok") })
	mux.HandleFunc("/readyz", func(answer http.ResponseWriter, _ *http.Request) {
		if !publisher.ready() {
			http.Error(answer, "not every capacity was published yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(answer, "ok")
	})
	return mux
}
