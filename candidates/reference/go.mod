// Marks the root of the module. Each Kubernetes minor has its own pins: go build -modfile=kubernetes-1.37.mod
module unreserve.dev/reference
