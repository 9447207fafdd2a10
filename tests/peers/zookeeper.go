package main

import (
	"fmt"
	"strings"

	"github.com/samuel/go-zookeeper/zk"
)

type zooKeeper struct {
	client *zk.Conn
	events <-chan zk.Event
	*zk.Lock
}

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func open(server, path string) (Client, error) {
	server, chroot, found := strings.Cut(server, "/")
	if found {
		chroot = "/" + chroot
	}
	client, events, err := zk.Connect([]string{server}, timeout, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	if _, _, err := client.Exists("/"); err != nil {
		return nil, err
	}
	return zooKeeper{client, events, zk.NewLock(client, chroot+path, zk.WorldACL(zk.PermAll))}, nil
}

func (lock zooKeeper) Session() int64 { return lock.client.SessionID() }
func (lock zooKeeper) Acquire() error { return lock.Lock.Lock() }
func (lock zooKeeper) Release() error { return lock.Unlock() }
func (lock zooKeeper) Close()         { lock.client.Close() }

func (lock zooKeeper) Tell() {
	for len(lock.events) > 0 {
		<-lock.events
	}
	go func() {
		for event := range lock.events {
			fmt.Println("told", strings.TrimPrefix(event.State.String(), "State"))
		}
	}()
}
