package main

import (
	"encoding/json"
	"os"
	"sync"
)

// class is what of a PriorityClass decides a patch.
type class struct {
	Value            int32  `json:"value"`
	PreemptionPolicy string `json:"preemptionPolicy"`
}

// group is what of a PodGroup decides a patch.
type group struct {
	PriorityClassName string `json:"priorityClassName"`
	Priority          int32  `json:"priority"`
}

// cache stands for what informers would hold: read under a lock, as a lister is.
type cache struct {
	lock    sync.RWMutex
	classes map[string]class
	groups  map[string]group // by namespace/name
}

func readCache(path string) (*cache, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var held struct {
		Classes map[string]class `json:"classes"`
		Groups  map[string]group `json:"groups"`
	}
	if err := json.Unmarshal(content, &held); err != nil {
		return nil, err
	}
	return &cache{classes: held.Classes, groups: held.Groups}, nil
}

func (c *cache) class(name string) (class, bool) {
	c.lock.RLock()
	defer c.lock.RUnlock()
	found, ok := c.classes[name]
	return found, ok
}

func (c *cache) group(namespace, name string) (group, bool) {
	c.lock.RLock()
	defer c.lock.RUnlock()
	found, ok := c.groups[namespace+"/"+name]
	return found, ok
}
