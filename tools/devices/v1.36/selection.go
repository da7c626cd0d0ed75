package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// selection is a selector's expression and a device of the driver.
type selection struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

var caches = map[cel.Features]*cel.Cache{}

// expressions returns the compiled expressions of these features, compiled as the scheduler's plugin compiles them.
func expressions(features structured.Features) *cel.Cache {
	key := cel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if caches[key] == nil {
		caches[key] = cel.NewCache(100, key)
	}
	return caches[key]
}

func (s selection) evaluate(ctx context.Context, features structured.Features) answer {
	compiled := expressions(features).GetOrCompile(s.Expression)
	if compiled.Error != nil {
		return answer{"compileError": compiled.Error.Error()}
	}
	matches, details, err := compiled.DeviceMatches(ctx, cel.Device{
		Driver:                   s.Driver,
		AllowMultipleAllocations: s.Device.AllowMultipleAllocations,
		Attributes:               s.Device.Attributes,
		Capacity:                 s.Device.Capacity,
	})
	if err != nil {
		return answer{"runtimeError": runtimeError(err).Error(), "cost": details.ActualCost()}
	}
	return answer{"matches": matches, "cost": details.ActualCost()}
}
