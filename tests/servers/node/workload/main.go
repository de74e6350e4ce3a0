// The images of the node's tests that are not Kubernetes' own, by the name that the program is called by.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "pause":
		pause()
	case "hello":
		http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
			host, _ := os.Hostname()
			fmt.Fprintln(answer, "hello from", host)
		})
		fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
	default:
		fmt.Fprintln(os.Stderr, "this program is broken")
	}
	os.Exit(1)
}

// pause holds the namespaces of a Pod and reaps orphans.
func pause() {
	if len(os.Args) > 1 && os.Args[1] == "-v" { // kubeadm's health check runs a Job of it
		fmt.Println("pause")
		os.Exit(0)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); child <= 0 || err != nil {
				break
			}
		}
	}
}
