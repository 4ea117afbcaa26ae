package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"unreserve.dev/reference/fault"
)

// follow connects a plugin to the informers of custom resources, before they are started.
type follow func(context.Context, dynamicinformer.DynamicSharedInformerFactory) error

// newCommand makes kube-scheduler's command. It is that of app.NewSchedulerCommand, which would keep the informers of
// custom resources to itself.
func newCommand(follow follow, plugins ...app.Option) *cobra.Command {
	chosen := options.NewOptions()
	wrong := ""
	command := &cobra.Command{
		Use:               "kube-scheduler",
		Long:              "kube-scheduler with the plugins NetworkSlots, SlotBinder, Gang, ArrivalSort and Devices.",
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return chosen.ComponentGlobalsRegistry.Set() },
		RunE: func(command *cobra.Command, _ []string) error {
			if err := fault.Choose(wrong); err != nil {
				return err
			}
			return run(command, chosen, follow, plugins)
		},
	}
	global := chosen.Flags.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, flags := range chosen.Flags.FlagSets {
		command.Flags().AddFlagSet(flags)
	}
	command.Flags().StringVar(&wrong, "fault", "", "be wrong in one known way: "+fault.List())
	return command
}

func run(command *cobra.Command, chosen *options.Options, follow follow, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates := chosen.ComponentGlobalsRegistry.FeatureGateFor(compatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(chosen.Logs, gates); err != nil {
		return err
	}
	flag.PrintFlags(command.Flags())
	ctx := server.SetupSignalContext()

	config, scheduler, err := app.Setup(ctx, chosen, plugins...)
	if err != nil {
		return err
	}
	if err := follow(ctx, config.DynInformerFactory); err != nil {
		return err
	}
	gates.(featuregate.MutableFeatureGate).AddMetrics()
	chosen.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, scheduler)
}
