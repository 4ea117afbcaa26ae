#!/bin/bash
# Run in a container of the node image: puts the component images into containerd's store.
set -eu
containerd >/tmp/containerd.log 2>&1 &
for _ in {1..300}; do
  ctr version >/dev/null 2>&1 && break
  sleep 0.2
done
# Not unpacked: /var of a node is copied at each start, so what is in it must be little.
ctr -n k8s.io images import --no-unpack --label io.cri-containerd.pinned=pinned --digests --all-platforms /images.tar ||
  { cat /tmp/containerd.log >&2; exit 1; }
kill %1
wait %1 || true
rm -rf /tmp/containerd.log /run/containerd
