// The tool for backups of the same version: `etcdutl snapshot restore`.
package main

import (
	"os"

	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
)

func main() {
	command := etcdutl.NewSnapshotCommand()
	command.SetArgs(os.Args[2:])
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}
