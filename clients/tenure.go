// Package tenure: am I the leader?  For a program that `tenure run --state ...` has started.  Standard library only;
// copy the file into a directory of your module.
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//	defer stop()
//	term, err := tenure.Leadership(ctx) // waits until this program leads
//	if err != nil { log.Fatal(err) }
//	defer term.Close()
//	for term.Context().Err() == nil { // it ends when the work must stop
//		err = term.State.Put("work/position", []byte("41"))
//	}
//
// Epoch carries the fence: pass it to whatever else the work writes to.  Left is counted from BEFORE each request, on
// CLOCK_BOOTTIME, which goes on while the machine sleeps (Go's own monotonic clock does not): it is never too long.
package tenure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	longest = 10 * time.Second // of a long poll
	least   = 50 * time.Millisecond
	pause   = 200 * time.Millisecond // after a request that failed
)

// Error is an answer that is no success: Word is what to branch on.
type Error struct {
	Status int
	Word   string `json:"error"`
	Detail string `json:"detail"`
}

func (e *Error) Error() string { return fmt.Sprintf("tenure: %s (%d): %s", e.Word, e.Status, e.Detail) }

// Is makes errors.Is(err, ErrFenced) and errors.Is(err, ErrNotLeader) work.
func (e *Error) Is(other error) bool {
	return other == ErrFenced && e.Word == "fenced" || other == ErrNotLeader && e.Word == "not-leader"
}

// Nothing was changed: another term has begun (final), or this one is over.
var ErrFenced, ErrNotLeader = errors.New("tenure: fenced"), errors.New("tenure: not the leader")

// now is CLOCK_BOOTTIME, by the system call: the standard library has no name for it.
func now() time.Duration {
	var t syscall.Timespec
	const boottime = 7
	if _, _, e := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&t)), 0); e != 0 {
		panic(e)
	}
	return time.Duration(t.Nano())
}

func clamp(d, low, high time.Duration) time.Duration {
	if d > high {
		d = high
	}
	if d < low {
		d = low
	}
	return d
}

// State is documents "COLLECTION/ID" that only the leader can change.
type State struct {
	client http.Client
	epoch  string
}

// NewState is for a program that was told its epoch otherwise (TENURE_EPOCH).
func NewState(path string, epoch uint64) *State {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &State{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, strconv.FormatUint(epoch, 10)}
}

func (s *State) ask(ctx context.Context, limit time.Duration, method, target string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://tenure"+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if s.epoch != "0" {
		request.Header.Set("Tenure-Epoch", s.epoch)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != 200 && answer.StatusCode != 304 {
		refused := &Error{}
		_ = json.Unmarshal(text, refused)
		refused.Status = answer.StatusCode
		err = refused
	}
	return text, err
}

func (s *State) call(method, name string, body []byte) ([]byte, error) {
	return s.ask(context.Background(), longest, method, (&url.URL{Path: "/v1/state/" + name}).EscapedPath(), body)
}

func found(err error) (bool, error) {
	var refused *Error
	if errors.As(err, &refused) && refused.Status == 404 {
		return false, nil
	}
	return err == nil, err
}

// Get returns false if there is no such document.
func (s *State) Get(name string) (data []byte, exists bool, err error) {
	data, err = s.call("GET", name, nil)
	exists, err = found(err)
	return data, exists, err
}

// Put has returned nil: it is durable.
func (s *State) Put(name string, data []byte) error {
	_, err := s.call("PUT", name, data)
	return err
}

// Delete returns false if there was no such document.
func (s *State) Delete(name string) (existed bool, err error) {
	_, err = s.call("DELETE", name, nil)
	return found(err)
}

// List returns the ids of a collection.
func (s *State) List(collection string) (ids []string, err error) {
	var said struct{ Documents []struct{ ID string } }
	text, err := s.call("GET", collection, nil)
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	for _, d := range said.Documents {
		ids = append(ids, d.ID)
	}
	return ids, err
}

type told struct {
	Leading, Draining bool
	Epoch             uint64
	LeftMs            int64 `json:"left_ms"`
	Version           string
	until             time.Duration
}

// read counts what is left from before the request.  A refusal says nothing about the term.
func (s *State) read(ctx context.Context, limit time.Duration) (t told, err error) {
	before := now()
	text, err := s.ask(ctx, limit, "GET", "/v1/leadership", nil)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	t.until = before + time.Duration(t.LeftMs)*time.Millisecond
	return t, err
}

func (s *State) wait(ctx context.Context, span, limit time.Duration, version string) error {
	target := fmt.Sprintf("/v1/leadership?wait=%.3f&since=%s", span.Seconds(), url.QueryEscape(version))
	_, err := s.ask(ctx, limit, "GET", target, nil)
	return err
}

// Term is one term of this program.
type Term struct {
	Epoch  uint64
	State  *State
	ctx    context.Context // the work's
	cancel context.CancelFunc
	open   context.Context // the watch's
	close  context.CancelFunc
	until  atomic.Int64
}

// Context is done when the work must stop: the lease is lost, or leadership is being given up.
func (t *Term) Context() context.Context { return t.ctx }

// Left is the time until the work must have ended; 0 after that.
func (t *Term) Left() time.Duration { return clamp(time.Duration(t.until.Load())-now(), 0, 1<<62) }

// Close ends the watch, not the term.
func (t *Term) Close() { t.close() }

func (t *Term) watch(socket *State, version string) {
	defer t.cancel()
	for t.open.Err() == nil && t.Left() > 0 {
		span := clamp(t.Left()/3, least, longest)
		err := socket.wait(t.open, span, clamp(span+time.Second, least, t.Left()), version)
		if err != nil { // refused, or tenure is gone: time decides
			time.Sleep(clamp(pause, 0, t.Left()))
		}
		seen, err := socket.read(t.open, clamp(longest, least, t.Left()))
		if err != nil {
			time.Sleep(clamp(pause, 0, t.Left()))
			continue
		}
		version = seen.Version
		if !seen.Leading || seen.Epoch != t.Epoch {
			seen.until = 0
		}
		t.until.Store(int64(seen.until))
		if seen.Draining { // the term goes on for as long as there is time
			t.cancel()
		}
	}
}

// Leadership waits until this program leads.  A program without --warm leads from the start.
func Leadership(ctx context.Context) (*Term, error) {
	path := os.Getenv("TENURE_SOCKET")
	if path == "" {
		return nil, errors.New("TENURE_SOCKET is not set: start the program with `tenure run --state store -- ...`")
	}
	for socket := NewState(path, 0); ; {
		seen, err := socket.read(ctx, longest)
		if err != nil {
			return nil, err
		}
		if seen.Leading && !seen.Draining {
			t := &Term{Epoch: seen.Epoch, State: NewState(path, seen.Epoch)}
			t.open, t.close = context.WithCancel(context.Background())
			t.ctx, t.cancel = context.WithCancel(ctx)
			t.until.Store(int64(seen.until))
			go t.watch(socket, seen.Version)
			return t, nil
		}
		if socket.wait(ctx, longest, longest+5*time.Second, seen.Version) != nil {
			time.Sleep(pause)
		}
	}
}
