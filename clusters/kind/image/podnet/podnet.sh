#!/bin/busybox sh
# A node's whole Pod network: a ptp CNI configuration for its own podCIDR, and a route to every other real node's.
set -u
PATH=/bin
/bin/busybox --install -s /bin 2>/dev/null
account=/var/run/secrets/kubernetes.io/serviceaccount
round=0
while :; do
  /node-bin/kubectl --server="https://$CONTROL_PLANE_ENDPOINT" --certificate-authority=$account/ca.crt --token="$(cat $account/token)" \
    get nodes -o 'jsonpath={range .items[*]}{.metadata.name} {.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}' >/nodes || {
    sleep 1
    continue
  }
  while read -r name cidr address; do
    # A new node has none yet, a fake node never.
    [ -n "$address" ] || continue
    if [ "$name" != "$NODE_NAME" ]; then
      ip route replace "$cidr" via "$address"
      continue
    fi
    [ -f /etc/cni/net.d/10-podnet.conflist ] && continue
    cat >/etc/cni/net.d/.podnet.part <<CONF
{"cniVersion": "1.0.0", "name": "podnet", "plugins": [
  {"type": "ptp", "ipMasq": true, "mtu": 1500, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
    "ranges": [[{"subnet": "$cidr"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
CONF
    mv /etc/cni/net.d/.podnet.part /etc/cni/net.d/10-podnet.conflist
  done </nodes
  # Often while the cluster comes up, then at leisure.
  round=$((round + 1))
  if [ $round -lt 30 ]; then sleep 1; else sleep 10; fi
done
