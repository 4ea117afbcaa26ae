#!/bin/sh
# Run inside the node's file system, before it becomes an image: what systemd starts, and containerd's base spec.
set -eu
cd /lib/systemd/system
rm -f /etc/systemd/system/*.wants/* multi-user.target.wants/* local-fs.target.wants/*
find sysinit.target.wants sockets.target.wants ! -name 'systemd-journald*' -type l -delete
echo ReadKMsg=no >>/etc/systemd/journald.conf
ln -sf /lib/systemd/systemd /sbin/init
systemctl set-default multi-user.target
systemctl enable containerd.service kubelet.service
systemctl mask systemd-binfmt.service
mkdir -p /etc/kubernetes/manifests
# The default spec caps open files at 1024; without rlimits containers inherit containerd's.
ctr oci spec | tr -d '\n' | sed -E 's/"rlimits": *\[[^]]*\],?//' >/etc/containerd/cri-base.json
dpkg-query --show >/kind/packages
