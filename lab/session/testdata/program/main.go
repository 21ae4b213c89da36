// The program of the tests: it shows what a program of a session sees.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	dir, _ := os.Getwd()
	fmt.Println("dir", dir)
	fmt.Println("args", os.Args[1:])
	fmt.Println("env", os.Getenv("LAB_TEST"))
	switch os.Args[1] {
	case "fail":
		fmt.Fprintln(os.Stderr, "the reason")
		os.Exit(3)
	case "write":
		if err := os.WriteFile(os.Args[2], []byte("content"), 0o600); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "later":
		time.Sleep(500 * time.Millisecond)
		fmt.Println("the end")
	case "wait":
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt)
		fmt.Println("waiting")
		<-c
		fmt.Println("interrupted")
	}
}
