package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// sender sends the review with a uid that no other request has.
type sender struct {
	target string
	before []byte
	after  []byte
	count  atomic.Uint64
	client *http.Client
}

func newSender(target string, review []byte, client *http.Client) (*sender, error) {
	var read struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.Unmarshal(review, &read); err != nil {
		return nil, err
	}
	before, after, found := bytes.Cut(review, []byte(`"`+read.Request.UID+`"`))
	if read.Request.UID == "" || !found {
		return nil, fmt.Errorf("the review has no request.uid")
	}
	return &sender{target: target, before: before, after: after, client: client}, nil
}

// send asks once. An answer other than 200 that allows the request by its uid is an error.
func (s *sender) send(ctx context.Context) error {
	uid := fmt.Appendf(nil, `"705ab4f5-6393-11e8-b7cc-%012x"`, s.count.Add(1))
	body := bytes.Join([][]byte{s.before, s.after}, uid)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP %d: %.200s", response.StatusCode, answer)
	case !bytes.Contains(answer, uid):
		return fmt.Errorf("not the answer to %s: %.200s", uid, answer)
	case !bytes.Contains(answer, []byte(`"allowed":true`)):
		return fmt.Errorf("not allowed: %.200s", answer)
	}
	return nil
}
