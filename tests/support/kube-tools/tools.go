//go:build tools

// Package tools pins the programs that render and apply contrib/kubernetes and contrib/helm.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
