// The baseline of the benchmark: a program that calls etcd by its official Go client, in a process of its own.
//
// It prints "ready" and then takes jobs, line by line, and answers each with one line of JSON:
//
//	names TASKS MILLISECONDS        as many loops with a key each: put it if it is absent, delete it
//	one TASKS MILLISECONDS NAME     as many tasks with a session each that cycle concurrency.Mutex on one name
//
// The protocol is that of the worker of leasehold, src/bin/leasehold-bench-load.rs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

const ttl = 60

type answer struct {
	Pairs   int     `json:"pairs"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	CPU     float64 `json:"cpu_us"`
}

// A cycle takes and gives back once; a wait is given up when its context ends.
type cycle func(context.Context) error

func main() {
	endpoint := flag.String("endpoint", "", "URL of etcd")
	flag.Parse()
	check(run(*endpoint))
}

func run(endpoint string) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(), // a wait that is given up at the end of a job is no news
	})
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := client.Grant(context.Background(), 600)
	if err != nil {
		return err
	}
	var sessions []*concurrency.Session
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var what, name string
		var tasks, milliseconds int
		fmt.Sscan(lines.Text(), &what, &tasks, &milliseconds, &name)
		span := time.Duration(milliseconds) * time.Millisecond
		var cycles []cycle
		for number := range tasks {
			switch what {
			case "names":
				key := fmt.Sprintf("/bench/raw/%d/%d", os.Getpid(), number)
				cycles = append(cycles, pair(client, key, lease.ID))
			case "one":
				if number == len(sessions) {
					session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
					if err != nil {
						return err
					}
					sessions = append(sessions, session)
				}
				cycles = append(cycles, mutex(sessions[number], name))
			default:
				return fmt.Errorf("unknown job %q", lines.Text())
			}
		}
		answer, err := measure(cycles, span)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	for _, session := range sessions {
		if err := session.Close(); err != nil {
			return err
		}
	}
	_, err = client.Revoke(context.Background(), lease.ID)
	return err
}

// The least that a lock by hand would ask of etcd.
func pair(client *clientv3.Client, key string, lease clientv3.LeaseID) cycle {
	value := strings.Repeat("x", 130)
	return func(context.Context) error {
		ctx := context.Background()
		absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		put := clientv3.OpPut(key, value, clientv3.WithLease(lease))
		if _, err := client.Txn(ctx).If(absent).Then(put).Commit(); err != nil {
			return err
		}
		_, err := client.Delete(ctx, key)
		return err
	}
}

func mutex(session *concurrency.Session, name string) cycle {
	mutex := concurrency.NewMutex(session, name)
	return func(ctx context.Context) error {
		if err := mutex.Lock(ctx); err != nil {
			// Given up while its key was being put, it leaves that key to its session: nobody would have a turn any more.
			_, _ = session.Client().Delete(context.Background(), fmt.Sprintf("%s/%x", name, session.Lease()))
			return err
		}
		return mutex.Unlock(context.Background())
	}
}

func measure(cycles []cycle, span time.Duration) (answer, error) {
	var (
		group sync.WaitGroup
		lock  sync.Mutex
		took  []time.Duration
		first error
	)
	busy, started := processorTime(), time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), started.Add(span))
	defer cancel()
	for _, cycle := range cycles {
		group.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil {
				begun := time.Now()
				if err := cycle(ctx); err != nil {
					if ctx.Err() == nil {
						lock.Lock()
						first = err
						lock.Unlock()
					}
					break
				}
				mine = append(mine, time.Since(begun))
			}
			lock.Lock()
			took = append(took, mine...)
			lock.Unlock()
		})
	}
	group.Wait()
	seconds := time.Since(started).Seconds()
	slices.Sort(took)
	quantile := func(q float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3
	}
	return answer{len(took), seconds, quantile(0.5), quantile(0.99), processorTime() - busy}, first
}

// Processor time of this process in microseconds.
func processorTime() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64((usage.Utime.Nano() + usage.Stime.Nano()) / 1e3)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "baseline:", err)
		os.Exit(1)
	}
}
