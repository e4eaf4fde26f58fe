// The conformance script in Go; tests/fault/test_clients.py says what it must print.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"conform/tenure"
)

func check(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func useState(term *tenure.Term) {
	_, exists, err := term.State.Get("conform/a b")
	check(err)
	fmt.Println("missing", !exists)
	check(term.State.Put("conform/a b", []byte("one")))
	data, _, err := term.State.Get("conform/a b")
	check(err)
	fmt.Println("got", string(data))
	ids, err := term.State.List("conform")
	check(err)
	fmt.Println("list", strings.Join(ids, ","))
	first, err := term.State.Delete("conform/a b")
	check(err)
	second, err := term.State.Delete("conform/a b")
	check(err)
	fmt.Println("deleted", first, second)
	err = tenure.NewState(os.Getenv("TENURE_SOCKET"), term.Epoch+1).Put("conform/x", nil)
	if errors.Is(err, tenure.ErrFenced) {
		fmt.Println("fenced")
	}
	var refused *tenure.Error
	if errors.As(term.State.Put("/x", nil), &refused) {
		fmt.Println("refused", refused.Status)
	}
}

func main() {
	signal.Ignore(syscall.SIGTERM) // what is to be noticed is pushed
	term, err := tenure.Leadership(context.Background())
	check(err)
	defer term.Close()
	fmt.Println("epoch", term.Epoch)
	fmt.Println("leads", term.Left() > 0)
	if os.Args[1] == "state" {
		useState(term)
	}
	if os.Args[1] == "close" {
		_, err = io.ReadAll(os.Stdin)
		check(err)
		return
	}
	fmt.Println("waiting")
	<-term.Context().Done()
	fmt.Println("lost")
	if os.Args[1] == "state" {
		check(term.State.Put("conform/last", []byte("x")))
		fmt.Println("last", term.Left() > 0)
	} else {
		fmt.Println("leads", term.Left() > 0)
	}
}
