// Command scheduler is kube-scheduler with the plugins NetworkSlots, SlotBinder, Gang, ArrivalSort and Devices.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"unreserve.dev/reference/binder"
	"unreserve.dev/reference/devices"
	"unreserve.dev/reference/gang"
	"unreserve.dev/reference/queuesort"
	"unreserve.dev/reference/slots"
)

func main() {
	network := &slots.Slots{}
	os.Exit(cli.Run(newCommand(
		network.Follow,
		app.WithPlugin(slots.Name, network.NewPlugin),
		app.WithPlugin(binder.Name, binder.New),
		app.WithPlugin(devices.Name, devices.New),
		app.WithPlugin(gang.Name, gang.New),
		app.WithPlugin(queuesort.Name, queuesort.New),
	)))
}
