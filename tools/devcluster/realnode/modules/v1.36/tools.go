//go:build tools

// Package tools keeps the commands built here among the module's requirements.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
