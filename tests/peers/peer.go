// A lock of go-zookeeper that is told what to do, a line at a time, and answers each line with one.
//
// Arguments: servers, path. Lines: see Peer.java.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func main() {
	servers, chroot, _ := strings.Cut(os.Args[1], "/")
	path := os.Args[2]
	if chroot != "" {
		chroot = "/" + chroot
	}
	client, _, err := zk.Connect(strings.Split(servers, ","), 6*time.Second, zk.WithLogger(quiet{}))
	must(err)
	_, _, err = client.Exists("/")
	must(err)
	lock := zk.NewLock(client, chroot+path, zk.WorldACL(zk.PermAll))
	fmt.Printf("session 0x%x\n", client.SessionID())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			fmt.Println("waiting")
			must(lock.Lock())
			fmt.Println("acquired")
		case "release":
			must(lock.Unlock())
			fmt.Println("released")
		case "add":
			times, err := strconv.Atoi(words[1])
			must(err)
			for time := 0; time < times; time++ {
				must(lock.Lock())
				data, _, err := client.Get(chroot + words[2])
				must(err)
				number, err := strconv.Atoi(string(data))
				must(err)
				_, err = client.Set(chroot+words[2], []byte(strconv.Itoa(number+1)), -1)
				must(err)
				must(lock.Unlock())
			}
			fmt.Println("added")
		default:
			must(fmt.Errorf("what is %q", lines.Text()))
		}
	}
	client.Close()
}
