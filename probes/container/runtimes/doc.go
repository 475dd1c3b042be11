// Package runtimes asks the container runtimes of a machine for their containers: by the
// Container Runtime Interface of Kubernetes (containerd, CRI-O), or by the HTTP API of Docker
// and Podman. It is a package of its own because gRPC comes with it: the packages of streams
// know package container only.
//
// To add a runtime, write its file and name it in known.
package runtimes
