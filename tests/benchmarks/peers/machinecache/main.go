// Keeps every machine of an API server in a cache of controller-runtime: machinecache KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		return err
	}
	objects, err := cache.New(config, cache.Options{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	machine.SetKind("Machine")
	go objects.Start(ctx)
	if _, err := objects.GetInformer(ctx, machine); err != nil {
		return err
	}
	objects.WaitForCacheSync(ctx)
	machines := &unstructured.UnstructuredList{}
	machines.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	machines.SetKind("MachineList")
	if err := objects.List(ctx, machines); err != nil {
		return err
	}
	fmt.Println("known", len(machines.Items))
	select {}
}
