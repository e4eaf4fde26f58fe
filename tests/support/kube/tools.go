//go:build tools

// Package tools pins the API server, so that go.mod holds what it needs.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
