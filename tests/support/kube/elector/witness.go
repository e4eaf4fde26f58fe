package main

import (
	"context"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The layout of tests/support/witness.c.
const (
	headerSize = 64
	rowSize    = 64
	kindGo     = 2 // a client-go leader; it has no epoch, so that 1 only says that the row is taken
)

type row struct {
	epoch   uint64
	started int64
	last    int64
	pid     int64
	kind    uint64
	told    uint64
	id      [16]byte
}

func bootTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		fail(err)
	}
	return ts.Nano()
}

func stampWhileLeading(ctx context.Context, path, id string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		fail(err)
	}
	info, err := file.Stat()
	if err != nil {
		fail(err)
	}
	table, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	if err != nil {
		fail(err)
	}
	number := int(atomic.AddUint64((*uint64)(unsafe.Pointer(&table[0])), 1)) - 1
	if headerSize+(number+1)*rowSize > len(table) {
		os.Exit(99)
	}
	r := (*row)(unsafe.Pointer(&table[headerSize+number*rowSize]))
	r.pid, r.kind = int64(os.Getpid()), kindGo
	copy(r.id[:], id)
	atomic.StoreInt64(&r.started, bootTime())
	atomic.StoreInt64(&r.last, r.started)
	atomic.StoreUint64(&r.epoch, 1) // last: from here on the row counts
	// The clock is read before the context is asked: a stamp is never later than the leadership
	// that it is for.
	for at := bootTime(); ctx.Err() == nil; at = bootTime() {
		atomic.StoreInt64(&r.last, at)
		time.Sleep(500 * time.Microsecond)
	}
}
