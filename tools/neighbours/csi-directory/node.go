package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nodeServer mounts volumes where the kubelet asks for them.
type nodeServer struct {
	csi.UnimplementedNodeServer
	node    string
	volumes volumes
}

func (s nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.node, AccessibleTopology: segment(s.node)}, nil
}

func (nodeServer) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (s nodeServer) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	id, target := request.VolumeId, request.TargetPath
	if err := checkedMount(id, target); err != nil {
		return nil, err
	}
	if request.VolumeCapability == nil {
		return nil, status.Error(codes.InvalidArgument, "no capability of the mount")
	}
	_, exists, err := s.volumes.size(id)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if !exists {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", id)
	}
	if err := mount(s.volumes.files(id), target, request.Readonly); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (nodeServer) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := checkedMount(request.VolumeId, request.TargetPath); err != nil {
		return nil, err
	}
	if err := unmount(request.TargetPath); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// checkedMount returns an error unless a request names a volume and the path of its mount.
func checkedMount(id, target string) error {
	if err := checked(id); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if target == "" {
		return status.Error(codes.InvalidArgument, "no target path")
	}
	return nil
}

// mount binds a folder to a path, unless that is done.
func mount(source, target string, readonly bool) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	there, err := isSame(source, target)
	if there || err != nil {
		return err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	if readonly {
		return syscall.Mount("", target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
	}
	return nil
}

// unmount removes a mount and its path, if they exist.
func unmount(target string) error {
	err := syscall.Unmount(target, 0)
	// EINVAL: it is no mount.
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func isSame(source, target string) (bool, error) {
	from, err := os.Stat(source)
	if err != nil {
		return false, err
	}
	to, err := os.Stat(target)
	return err == nil && os.SameFile(from, to), err
}
