// A CSI driver whose volumes are folders of a node, for tests of delayed claims in a cluster of real nodes.
module podium/tools/neighbours/csi-directory

go 1.26.0

tool podium/tools/neighbours/csi-directory

require (
	github.com/container-storage-interface/spec v1.13.0
	google.golang.org/grpc v1.84.0
	k8s.io/kubelet v0.37.2
)

require (
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
