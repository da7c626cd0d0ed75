// Records upstream's table of cases for the incubating allocator: each test's inputs and its answer.
//
// The cases are in internal packages, so tests/support/devices/table.py copies this file into a copy of the module.
package incubating

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// record has the fields of a question in mode "allocate", the name of the test, and the answer.
type record struct {
	Name      string                       `json:"name"`
	Features  Features                     `json:"features"`
	Node      *v1.Node                     `json:"node"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Allocated allocated                    `json:"allocated"`
	// The context had ended before the call.
	Ended  bool           `json:"ended,omitempty"`
	Answer map[string]any `json:"answer"`
}

type allocated struct {
	Devices  []map[string]any `json:"devices"`
	Shared   []map[string]any `json:"shared"`
	Consumed []map[string]any `json:"consumed"`
}

func fields(id DeviceID) map[string]any {
	return map[string]any{"driver": id.Driver.String(), "pool": id.Pool.String(), "device": id.Device.String()}
}

func recordedState(state AllocatedState) allocated {
	result := allocated{Devices: []map[string]any{}, Shared: []map[string]any{}, Consumed: []map[string]any{}}
	for id := range state.AllocatedDevices {
		result.Devices = append(result.Devices, fields(id))
	}
	for id := range state.AllocatedSharedDeviceIDs {
		each := fields(id.GetDeviceID())
		each["shareID"] = id.ShareID.String()
		result.Shared = append(result.Shared, each)
	}
	for id, capacity := range state.AggregatedCapacity {
		each := fields(id)
		each["capacity"] = capacity
		result.Consumed = append(result.Consumed, each)
	}
	return result
}

// recorder is the incubating allocator, whose calls are recorded.
type recorder struct {
	*Allocator
	record record
	output *json.Encoder
}

func (r *recorder) Allocate(
	ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim,
) ([]resourceapi.AllocationResult, error) {
	r.record.Node = node
	r.record.Claims = claims
	r.record.Ended = ctx.Err() != nil
	found, err := r.Allocator.Allocate(ctx, node, claims)
	if err != nil {
		onNode := errors.Is(err, internal.ErrFailedAllocationOnNode)
		r.record.Answer = map[string]any{"error": err.Error(), "node": onNode}
	} else {
		r.record.Answer = map[string]any{"allocations": found}
	}
	if err := r.output.Encode(r.record); err != nil {
		panic(err)
	}
	return found, err
}

func TestRecord(t *testing.T) {
	file, err := os.Create(os.Getenv("RECORD"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	output := json.NewEncoder(file)
	newAllocator := func(
		ctx context.Context,
		features Features,
		allocatedState AllocatedState,
		classLister DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		celCache *cel.Cache,
	) (internal.Allocator, error) {
		classes, err := classLister.List()
		if err != nil {
			return nil, err
		}
		test := klog.FromContext(ctx).GetSink().(ktesting.Underlier).GetUnderlying().(*testing.T)
		made, err := NewAllocator(ctx, features, allocatedState, classLister, slices, celCache)
		return &recorder{made, record{
			Name:      test.Name(),
			Features:  features,
			Slices:    slices,
			Classes:   classes,
			Allocated: recordedState(allocatedState),
		}, output}, err
	}
	allocatortesting.TestAllocator(t, SupportedFeatures, newAllocator)
	allocatortesting.TestLexicographicalAllocator(t, SupportedFeatures, newAllocator)
}
