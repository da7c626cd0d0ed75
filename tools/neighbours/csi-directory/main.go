// Csi-directory is a CSI driver whose volumes are folders of the node on which it runs.
//
// It exists because the module proxy does not serve csi-driver-host-path. It does what that driver does in a distributed
// deployment: one driver and one csi-provisioner on each node, volumes that only their node reaches, and a limited
// capacity of each node. It registers itself with the kubelet, which node-driver-registrar does for other drivers.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	name     = "directory.csi.podium.dev"
	topology = "topology.directory.csi.podium.dev/node"
)

func main() {
	var node, data, socket, registered, seen string
	var capacity int64
	flag.StringVar(&node, "node", "", "name of the node")
	flag.StringVar(&data, "data", "", "folder of the volumes")
	flag.Int64Var(&capacity, "capacity", 0, "bytes that all volumes of the node may have together")
	flag.StringVar(&socket, "socket", "", "path of the driver's socket")
	flag.StringVar(&registered, "registration", "", "path of the socket by which the kubelet finds the driver")
	flag.StringVar(&seen, "kubelet-socket", "", "path of the driver's socket for the kubelet")
	flag.Parse()
	// A pod writes with any user, into a folder that the driver makes for all.
	syscall.Umask(0)
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterControllerServer(server, &controller{node: node, volumes: volumes{data}, capacity: capacity})
	csi.RegisterNodeServer(server, nodeServer{node: node, volumes: volumes{data}})
	go serve(server, socket)
	kubelet := grpc.NewServer(grpc.UnaryInterceptor(logged))
	registration.RegisterRegistrationServer(kubelet, registrar{endpoint: seen})
	go serve(kubelet, registered)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
	// The listener removes its socket, so that the kubelet takes the driver away.
	kubelet.Stop()
	server.GracefulStop()
}

func serve(server *grpc.Server, path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err != nil {
		log.Printf("%s %v: %v", info.FullMethod, request, err)
	}
	return answer, err
}

// registrar answers the kubelet, which looks for sockets of plugins in a folder.
type registrar struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// identity says which services the driver has.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	answer := &csi.GetPluginCapabilitiesResponse{}
	for _, each := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		service := &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: each}}
		answer.Capabilities = append(answer.Capabilities, &csi.PluginCapability{Type: service})
	}
	return answer, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}
