package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/samuel/go-zookeeper/zk"
)

type zooKeeper struct {
	client *zk.Conn
	events <-chan zk.Event
	chroot string
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
	return zooKeeper{client, events, chroot, zk.NewLock(client, chroot+path, zk.WorldACL(zk.PermAll))}, nil
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

func (lock zooKeeper) Add(path string) error {
	data, _, err := lock.client.Get(lock.chroot + path)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	_, err = lock.client.Set(lock.chroot+path, []byte(strconv.Itoa(number+1)), -1)
	return err
}
