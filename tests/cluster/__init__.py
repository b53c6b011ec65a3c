"""A real Kubernetes control plane for the tests: etcd and kube-apiserver, no nodes and no controllers."""
