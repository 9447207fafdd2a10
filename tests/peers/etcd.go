package main

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

type etcd struct {
	client  *clientv3.Client
	session *concurrency.Session
	*concurrency.Mutex
}

func open(server, path string) (Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, DialTimeout: timeout})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(timeout/time.Second)))
	if err != nil {
		return nil, err
	}
	return etcd{client, session, concurrency.NewMutex(session, path)}, nil
}

func (lock etcd) Session() int64 { return int64(lock.session.Lease()) }
func (lock etcd) Acquire() error { return lock.Lock(context.Background()) }
func (lock etcd) Release() error { return lock.Unlock(context.Background()) }

func (lock etcd) Tell() {
	go func() {
		<-lock.session.Done()
		fmt.Println("told Done")
	}()
}

func (lock etcd) Close() {
	lock.session.Close()
	lock.client.Close()
}
