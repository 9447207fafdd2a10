// A lock that is told what to do, a line at a time, and answers each line with one: of go-zookeeper, built with zookeeper.go, or of
// etcd's client, built with etcd.go.
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
)

// Client has a session and a lock.
type Client interface {
	Session() int64
	Acquire() error
	Release() error
	// Tell has it say what it is told of its session.
	Tell()
	Close()
}

var timeout = 6 * time.Second

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	must(err)
	return number
}

func connect(index int) Client {
	servers := strings.Split(os.Args[1], ",")
	client, err := open(servers[index%len(servers)], os.Args[2])
	must(err)
	return client
}

func run(client Client, start time.Time, limit time.Duration) string {
	var laps strings.Builder
	laps.WriteString(" |")
	for time.Since(start) <= limit {
		begin := time.Now()
		must(client.Acquire())
		must(client.Release())
		fmt.Fprintf(&laps, " %d/%d", time.Since(start).Microseconds(), time.Since(begin).Microseconds())
	}
	return laps.String()
}

func laps(clients []Client, limit time.Duration) string {
	runs := make(chan string)
	start := time.Now()
	for _, client := range clients {
		go func(client Client) { runs <- run(client, start, limit) }(client)
	}
	laps := "laps"
	for range clients {
		laps += <-runs
	}
	return laps
}

func main() {
	if text := os.Getenv("PEER_TIMEOUT_MS"); text != "" {
		timeout = time.Duration(number(text)) * time.Millisecond
	}
	clients := []Client{connect(0)}
	first := clients[0]
	fmt.Printf("session 0x%x\n", first.Session())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "acquire":
			fmt.Println("waiting")
			must(first.Acquire())
			fmt.Println("acquired")
		case "release":
			must(first.Release())
			fmt.Println("released")
		case "tell":
			first.Tell()
			fmt.Println("telling")
		case "laps":
			count := number(words[1])
			for len(clients) < count {
				clients = append(clients, connect(len(clients)))
			}
			limit := time.Duration(number(words[2])) * time.Millisecond
			fmt.Println(laps(clients[:count], limit))
		default:
			must(fmt.Errorf("what is %q", lines.Text()))
		}
	}
	for _, client := range clients {
		client.Close()
	}
}
