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
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
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

// caller speaks as much HTTP as the socket needs: one request a connection, an answer of a known length.
type caller struct{ path string }

func (c caller) ask(ctx context.Context, limit time.Duration, method, target, epoch string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	go func() { <-ctx.Done(); conn.Close() }() // ends what is being read
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: tenure\r\nConnection: close\r\nContent-Length: %d\r\n", method, target, len(body))
	if epoch != "" {
		head += "Tenure-Epoch: " + epoch + "\r\n"
	}
	if _, err = conn.Write(append([]byte(head+"\r\n"), body...)); err != nil {
		return 0, nil, err
	}
	return readAnswer(bufio.NewReader(conn))
}

func readAnswer(from *bufio.Reader) (status int, body []byte, err error) {
	var line string
	length := -1
	for n := 0; line != "\r\n"; n++ {
		if line, err = from.ReadString('\n'); err != nil {
			return 0, nil, err
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n == 0 {
			_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &status)
		} else if strings.EqualFold(name, "Content-Length") {
			length, err = strconv.Atoi(strings.TrimSpace(value))
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if length > 0 && length < 16<<20 {
		body = make([]byte, length)
		_, err = io.ReadFull(from, body)
	} else if length != 0 && status != 304 {
		err = errors.New("tenure: an answer of unknown length")
	}
	return status, body, err
}

// State is documents "COLLECTION/ID" that only the leader can change.
type State struct {
	caller
	epoch string
}

// NewState is for a program that was told its epoch otherwise (TENURE_EPOCH).
func NewState(path string, epoch uint64) *State {
	return &State{caller{path}, strconv.FormatUint(epoch, 10)}
}

func refusal(status int, text []byte) error {
	said := &Error{}
	_ = json.Unmarshal(text, said)
	said.Status = status
	return said
}

func (s *State) call(method, name string, body []byte, mayMiss bool) (bool, []byte, error) {
	target := (&url.URL{Path: "/v1/state/" + name}).EscapedPath()
	status, text, err := s.ask(context.Background(), longest, method, target, s.epoch, body)
	if err != nil || status == 404 && mayMiss {
		return false, nil, err
	}
	if status != 200 {
		return false, nil, refusal(status, text)
	}
	return true, text, nil
}

// Get returns false if there is no such document.
func (s *State) Get(name string) (data []byte, exists bool, err error) {
	exists, data, err = s.call("GET", name, nil, true)
	return data, exists, err
}

// Put has returned nil: it is durable.
func (s *State) Put(name string, data []byte) error {
	_, _, err := s.call("PUT", name, data, false)
	return err
}

// Delete returns false if there was no such document.
func (s *State) Delete(name string) (existed bool, err error) {
	existed, _, err = s.call("DELETE", name, nil, true)
	return existed, err
}

// List returns the ids of a collection.
func (s *State) List(collection string) (ids []string, err error) {
	_, text, err := s.call("GET", collection, nil, false)
	var said struct{ Documents []struct{ ID string } }
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
func (c caller) read(ctx context.Context, limit time.Duration) (t told, err error) {
	before := now()
	status, text, err := c.ask(ctx, limit, "GET", "/v1/leadership", "", nil)
	if err == nil && status != 200 {
		err = refusal(status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	t.until = before + time.Duration(t.LeftMs)*time.Millisecond
	return t, err
}

func (c caller) wait(ctx context.Context, span, limit time.Duration, version string) error {
	status, text, err := c.ask(ctx, limit, "GET",
		fmt.Sprintf("/v1/leadership?wait=%.3f&since=%s", span.Seconds(), url.QueryEscape(version)), "", nil)
	if err == nil && status != 200 && status != 304 {
		err = refusal(status, text)
	}
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
func (t *Term) Left() time.Duration { return max(0, time.Duration(t.until.Load())-now()) }

// Close ends the watch, not the term.
func (t *Term) Close() { t.close() }

func max(a, b time.Duration) time.Duration {
	if a > b {
		return a
	}
	return b
}

func min(a, b time.Duration) time.Duration { return -max(-a, -b) }

func (t *Term) watch(c caller, version string) {
	defer t.cancel()
	for t.open.Err() == nil && t.Left() > 0 {
		span := max(least, min(t.Left()/3, longest))
		err := c.wait(t.open, span, max(least, min(span+time.Second, t.Left())), version)
		if err != nil { // refused, or tenure is gone: time decides
			time.Sleep(min(pause, t.Left()))
		}
		if t.Left() <= 0 {
			return
		}
		seen, err := c.read(t.open, max(least, t.Left()))
		if err != nil {
			time.Sleep(min(pause, t.Left()))
			continue
		}
		if !seen.Leading || seen.Epoch != t.Epoch {
			t.until.Store(0)
			return
		}
		version = seen.Version
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
	c := caller{path}
	for {
		seen, err := c.read(ctx, longest)
		if err != nil {
			return nil, err
		}
		if seen.Leading && !seen.Draining {
			t := &Term{Epoch: seen.Epoch, State: NewState(path, seen.Epoch)}
			t.open, t.close = context.WithCancel(context.Background())
			t.ctx, t.cancel = context.WithCancel(ctx)
			t.until.Store(int64(seen.until))
			go t.watch(c, seen.Version)
			return t, nil
		}
		if c.wait(ctx, longest, longest+5*time.Second, seen.Version) != nil {
			time.Sleep(pause)
		}
	}
}
