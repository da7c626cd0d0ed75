package main

import (
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// schedulerFeatures is the result of AllocatorFeatures in kube-scheduler 1.37 with the default of each gate.
var schedulerFeatures = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// runtimeError returns the error that the allocator reports for an error of an expression.
func runtimeError(err error) error {
	return cel.EnhanceRuntimeError(err)
}
