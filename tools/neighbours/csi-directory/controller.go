package main

import (
	"context"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// controller makes and removes volumes of its node, as its csi-provisioner asks.
type controller struct {
	csi.UnimplementedControllerServer
	node     string
	volumes  volumes
	capacity int64
	// The provisioner has several workers, and the room for a new volume is read before the volume is made.
	lock sync.Mutex
}

func (c *controller) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, each := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: each}}
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return answer, nil
}

func (c *controller) CreateVolume(
	_ context.Context, request *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	id, wanted := request.Name, request.CapacityRange.GetRequiredBytes()
	if err := checked(id); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if !areMounts(request.VolumeCapabilities) {
		return nil, status.Error(codes.InvalidArgument, "volumes are for mounts on one node")
	}
	if !c.reaches(request.AccessibilityRequirements) {
		return nil, status.Errorf(codes.ResourceExhausted, "volumes are on node %s alone", c.node)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	size, exists, err := c.volumes.size(id)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if exists && size != wanted {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s has %d bytes", id, size)
	}
	if !exists {
		if err := c.create(id, wanted); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: id, CapacityBytes: wanted, AccessibleTopology: []*csi.Topology{segment(c.node)},
	}}, nil
}

func (c *controller) create(id string, wanted int64) error {
	free, err := c.free()
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if wanted > free {
		return status.Errorf(codes.ResourceExhausted, "%d bytes are free on node %s", free, c.node)
	}
	if err := c.volumes.create(id, wanted); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func (c *controller) DeleteVolume(
	_ context.Context, request *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	if err := checked(request.VolumeId); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.volumes.remove(request.VolumeId); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (c *controller) GetCapacity(
	_ context.Context, request *csi.GetCapacityRequest,
) (*csi.GetCapacityResponse, error) {
	if asked := request.AccessibleTopology; asked != nil && asked.Segments[topology] != c.node {
		return &csi.GetCapacityResponse{}, nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	free, err := c.free()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}

func (c *controller) ValidateVolumeCapabilities(
	_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := checked(request.VolumeId); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if len(request.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no capabilities to validate")
	}
	_, exists, err := c.volumes.size(request.VolumeId)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if !exists {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", request.VolumeId)
	}
	answer := &csi.ValidateVolumeCapabilitiesResponse{}
	if areMounts(request.VolumeCapabilities) {
		answer.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
			VolumeCapabilities: request.VolumeCapabilities,
		}
	}
	return answer, nil
}

func (c *controller) free() (int64, error) {
	total, err := c.volumes.total()
	return max(c.capacity-total, 0), err
}

// reaches returns whether a volume of this node is accessible where it is required.
func (c *controller) reaches(required *csi.TopologyRequirement) bool {
	for _, each := range required.GetRequisite() {
		if each.Segments[topology] == c.node {
			return true
		}
	}
	return len(required.GetRequisite()) == 0
}

// areMounts returns whether capabilities are those of file systems that one node uses.
func areMounts(capabilities []*csi.VolumeCapability) bool {
	for _, each := range capabilities {
		switch each.GetAccessMode().GetMode() {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		default:
			return false
		}
		if each.GetMount() == nil {
			return false
		}
	}
	return len(capabilities) > 0
}

func segment(node string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topology: node}}
}
