package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	admission "k8s.io/api/admission/v1"
	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1beta1"
)

const (
	maxBody        = 7 << 20
	defaultTimeout = 10 * time.Second
	groupLabel     = "scheduling.podium.dev/pod-group"
)

// operation is one step of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type handler struct {
	cache   *cache
	records *records
	log     *slog.Logger
	slots   chan struct{}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
	default:
		h.records.shed.Inc()
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests in flight", http.StatusTooManyRequests)
		return
	}
	defer func() { <-h.slots }()
	h.records.inFlight.Inc()
	defer h.records.inFlight.Dec()

	timeout := defaultTimeout
	if given, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil {
		timeout = given
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "send application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	started := time.Now()
	answer, err := h.review(body)
	h.records.duration.WithLabelValues("mutate").Observe(time.Since(started).Seconds())
	if err != nil {
		h.log.Warn("bad request", "error", err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if ctx.Err() != nil {
		http.Error(w, "too late", http.StatusGatewayTimeout)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		h.log.Debug("the client left", "error", err.Error())
	}
}

func (h *handler) review(body []byte) ([]byte, error) {
	var review admission.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	request := review.Request
	if request == nil || review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" {
		return nil, errors.New("not an AdmissionReview v1")
	}
	patch, err := h.mutate(request)
	if err != nil {
		return nil, err
	}
	verdict, response := "allowed", &admission.AdmissionResponse{UID: request.UID, Allowed: true}
	if len(patch) > 0 {
		content, err := json.Marshal(patch)
		if err != nil {
			return nil, err
		}
		verdict = "patched"
		kind := admission.PatchTypeJSONPatch
		response.Patch, response.PatchType = content, &kind
	}
	h.records.requests.WithLabelValues("mutate", request.Kind.Kind, string(request.Operation), verdict, "").Inc()
	h.log.Debug(verdict, "uid", request.UID, "kind", request.Kind.Kind, "name", request.Name)
	return json.Marshal(&admission.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

func (h *handler) mutate(request *admission.AdmissionRequest) ([]operation, error) {
	if request.Operation != admission.Create {
		return nil, nil
	}
	switch request.Kind.Kind {
	case "Pod":
		var pod core.Pod
		if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
			return nil, err
		}
		return h.inherit(request.Namespace, &pod), nil
	case "PodGroup":
		var group scheduling.PodGroup
		if err := json.Unmarshal(request.Object.Raw, &group); err != nil {
			return nil, err
		}
		return h.stamp(&group), nil
	}
	return nil, nil
}

// inherit gives a pod that chose no class its group's.
func (h *handler) inherit(namespace string, pod *core.Pod) []operation {
	name := pod.Labels[groupLabel]
	if name == "" || pod.Spec.PriorityClassName != "" || pod.DeletionTimestamp != nil {
		return nil
	}
	group, ok := h.cache.group(namespace, name)
	if !ok || group.PriorityClassName == "" {
		return nil
	}
	found, ok := h.cache.class(group.PriorityClassName)
	if !ok || found.Value != group.Priority {
		return nil
	}
	spec := &pod.Spec
	patch := []operation{{"add", "/spec/priorityClassName", group.PriorityClassName}}
	patch = set(patch, "/spec/priority", spec.Priority, found.Value)
	return set(patch, "/spec/preemptionPolicy", spec.PreemptionPolicy, core.PreemptionPolicy(found.PreemptionPolicy))
}

// stamp resolves the class that a group names, as the Priority plugin does for native groups.
func (h *handler) stamp(group *scheduling.PodGroup) []operation {
	if group.DeletionTimestamp != nil {
		return nil
	}
	found, ok := h.cache.class(group.Spec.PriorityClassName)
	if !ok {
		return nil
	}
	spec := &group.Spec
	patch := set(nil, "/spec/priority", spec.Priority, found.Value)
	patch = set(
		patch, "/spec/preemptionPolicy", spec.PreemptionPolicy, scheduling.PreemptionPolicy(found.PreemptionPolicy),
	)
	if spec.DisruptionMode == nil {
		single := &scheduling.DisruptionMode{Single: &scheduling.SingleDisruptionMode{}}
		patch = append(patch, operation{"add", "/spec/disruptionMode", single})
	}
	return patch
}

// set adds to a patch what gives a field its value, if it has another or none.
func set[T comparable](patch []operation, path string, present *T, value T) []operation {
	switch {
	case present == nil:
		return append(patch, operation{"add", path, value})
	case *present != value:
		return append(patch, operation{"replace", path, value})
	}
	return patch
}
