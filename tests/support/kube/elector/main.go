// A client-go candidate: the opponent on the same Lease.
//
//	elector KUBECONFIG NAMESPACE NAME ID DURATION RENEW RETRY
//
// It prints "leading" and "stopped", and each holder that it sees as
// "sees HOLDER".  On TERM it ends; it gives the Lease back if RELEASE is set.
// If WITNESS names a table of tests/support/witness.c, it stamps a row there
// for as long as client-go lets it lead.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		fail(err)
	}
	return d
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "elector:", err)
	os.Exit(1)
}

func main() {
	if len(os.Args) != 8 {
		fail(fmt.Errorf("usage: elector KUBECONFIG NAMESPACE NAME ID DURATION RENEW RETRY"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fail(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: os.Args[2], Name: os.Args[3]},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: os.Args[4]},
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		ReleaseOnCancel: os.Getenv("RELEASE") != "",
		LeaseDuration:   duration(os.Args[5]),
		RenewDeadline:   duration(os.Args[6]),
		RetryPeriod:     duration(os.Args[7]),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				fmt.Println("leading")
				if table := os.Getenv("WITNESS"); table != "" {
					stampWhileLeading(ctx, table, os.Args[4])
				}
				<-ctx.Done()
			},
			OnStoppedLeading: func() { fmt.Println("stopped") },
			OnNewLeader:      func(id string) { fmt.Println("sees", id) },
		},
	})
}
