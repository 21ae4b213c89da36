#!/bin/sh
# Moves a node from the Windows service to the DaemonSet of the chart, or back:
#
#   sh move-node.sh NODE daemonset
#   sh move-node.sh NODE service
#
# The DaemonSet selects nodes by the label csi-proxy=daemonset, which this sets and removes:
# install the chart with nodeSelector.csi-proxy=daemonset. A pod that waits for the service is
# ready, and reaches the node's services, so it stops the one for which it waits. Run it again if
# it was cut off. The variables NAMESPACE, SERVICE and TIMEOUT (seconds) have defaults.
set -eu
node=$1 to=$2
namespace=${NAMESPACE:-kube-system} service=${SERVICE:-csiproxy} timeout=${TIMEOUT:-300}
say() { echo "$node: $*"; }

# await WHAT COMMAND... runs a command until it succeeds.
await() {
	what=$1 tries=0
	shift
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt "$timeout" ] || { say "gave up after $timeout s: $what" >&2; exit 1; }
		sleep 1
	done
	say "$what"
}
pod() {
	kubectl get pods -n "$namespace" -l 'app.kubernetes.io/name in (csi-proxy, csi-proxy-pool)' --field-selector "spec.nodeName=$node" -o name
}
on_node() { kubectl exec -n "$namespace" "$(pod)" -- "$@" >/dev/null; }
runs() { [ -n "$(pod)" ] && kubectl wait -n "$namespace" "$(pod)" --for=condition=Ready --timeout=1s >/dev/null 2>&1; }
serves() { kubectl logs -n "$namespace" "$(pod)" | grep -q 'Serving API'; }
gone() { [ -z "$(pod)" ]; }

case $to in
daemonset)
	kubectl label node "$node" csi-proxy=daemonset --overwrite >/dev/null
	await 'the pod of the DaemonSet runs' runs
	if serves; then
		say 'it serves already'
	elif on_node sc.exe query "$service"; then
		on_node sc.exe config "$service" start= disabled
		on_node sc.exe stop "$service" || say "$service was stopped before"
	else
		say "there is no service $service, and the log of $(pod) says for what it waits" >&2
		exit 1
	fi
	await 'the pod serves' serves
	;;
service)
	await 'the pod of the DaemonSet runs' runs
	on_node sc.exe config "$service" start= auto
	# Until the pod is gone the service waits, or ends and is started again.
	on_node sc.exe failureflag "$service" 1
	on_node sc.exe failure "$service" reset= 0 actions= restart/10000
	on_node sc.exe start "$service" || say "$service starts when the pod is gone"
	kubectl label node "$node" csi-proxy- >/dev/null
	await 'the pod is gone, and the service serves within 10 s' gone
	;;
*)
	echo 'usage: sh move-node.sh NODE daemonset|service' >&2
	exit 2
	;;
esac
