package main

import (
	"context"
	"errors"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocation is what the allocator reads: a node, the claims to allocate in order, and the state of the cluster.
type allocation struct {
	Node          corev1.Node                  `json:"node"`
	Claims        []*resourceapi.ResourceClaim `json:"claims"`
	Slices        []*resourceapi.ResourceSlice `json:"slices"`
	Classes       []*resourceapi.DeviceClass   `json:"classes"`
	Allocated     allocated                    `json:"allocated"`
	TimeoutMillis int                          `json:"timeoutMillis"`
	Allocator     string                       `json:"allocator"`
}

// allocated is structured.AllocatedState with readable names.
type allocated struct {
	Devices  []device `json:"devices"`
	Shared   []device `json:"shared"`
	Consumed []device `json:"consumed"`
}

// device has a share ID in `shared`, and a capacity in `consumed`.
type device struct {
	Driver   string                                          `json:"driver"`
	Pool     string                                          `json:"pool"`
	Device   string                                          `json:"device"`
	ShareID  *types.UID                                      `json:"shareID"`
	Capacity map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

func (d device) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

func (a allocated) state() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, each := range a.Devices {
		state.AllocatedDevices.Insert(each.id())
	}
	for _, each := range a.Shared {
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(each.id(), each.ShareID))
	}
	for _, each := range a.Consumed {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(each.id(), each.Capacity))
	}
	return state
}

func (a allocation) allocate(ctx context.Context, features structured.Features) answer {
	if a.TimeoutMillis > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(a.TimeoutMillis)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	structured.EnableAllocators()
	if a.Allocator != "" {
		structured.EnableAllocators(a.Allocator)
	}
	allocator, err := structured.NewAllocator(
		ctx, features, a.Allocated.state(), newClasses(a.Classes), a.Slices, expressions(features),
	)
	if err != nil {
		return answer{"error": err.Error()}
	}
	found, err := allocator.Allocate(ctx, &a.Node, a.Claims)
	result := answer{"channel": channel(allocator)}
	if err != nil {
		result["error"] = err.Error()
		result["node"] = errors.Is(err, structured.ErrFailedAllocationOnNode)
	} else {
		result["allocations"] = found
	}
	return result
}

// channel returns the name of the implementation, which upstream shows only to packages of its module.
func channel(allocator structured.Allocator) string {
	return reflect.ValueOf(allocator).MethodByName("Channel").Call(nil)[0].String()
}

// classes is the lister of the scheduler's plugin, over an index of the question's classes.
type classes struct {
	lister resourcelisters.DeviceClassLister
}

func newClasses(all []*resourceapi.DeviceClass) classes {
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, each := range all {
		if err := index.Add(each); err != nil {
			panic(err)
		}
	}
	return classes{resourcelisters.NewDeviceClassLister(index)}
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	return c.lister.Get(name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return c.lister.List(labels.Everything())
}
