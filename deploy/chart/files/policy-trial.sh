#!/bin/sh
# Lists the running pods that the policy of the chart would refuse, with the reason of the API
# server. Install the chart with policy.action=Audit first: the policy then only warns. The
# script changes nothing: it has the API server judge a copy of each pod in a dry run. Pods of
# one controller with the same volumes are judged once. It needs kubectl, and the rights to list
# and create pods. The exit code is 1 if a pod would be refused, and 2 if one was not judged.
set -eu
kubectl get validatingadmissionpolicybinding csi-proxy-pods -o 'jsonpath={.spec.validationActions}' | grep -q Warn || {
	echo "policy-trial.sh: the binding csi-proxy-pods does not warn; install the chart with policy.action=Audit" >&2
	exit 2
}
result=0
seen=' '
# Only a hostPath that begins as that of a device or a server can lead to a pipe.
pods=$(kubectl get pods --all-namespaces --field-selector=status.phase=Running --no-headers -o 'custom-columns=N:.metadata.namespace,P:.metadata.name,O:.metadata.ownerReferences[0].uid,A:.spec.serviceAccountName,H:.spec.volumes[*].hostPath.path' |
	grep -E '(^|[ ,])[[:space:]]*([\\/][\\/]|[\\/][?][?])' || true)
while read -r namespace pod owner account paths; do
	[ -n "$namespace" ] || continue
	[ "$owner" != '<none>' ] || owner=$pod
	key="$namespace/$owner/$account/$(printf %s "$paths" | tr ' ' '+')"
	case $seen in *" $key "*) continue ;; esac
	seen="$seen$key "
	# The copy has the pod's name, so the dry run ends with AlreadyExists, after the policy.
	answer=$(kubectl get pod -n "$namespace" "$pod" -o json | kubectl create --dry-run=server -f - 2>&1) || true
	case $answer in
	*"'csi-proxy-pods'"*)
		[ $result = 2 ] || result=1
		printf 'refused  %s/%s: %s\n' "$namespace" "$pod" "$(printf '%s\n' "$answer" | sed -n "s/.*'csi-proxy-pods' with binding 'csi-proxy-pods': //p" | head -n 1)"
		;;
	*AlreadyExists*) printf 'admitted %s/%s\n' "$namespace" "$pod" ;;
	*)
		result=2
		printf 'unknown  %s/%s: %s\n' "$namespace" "$pod" "$answer"
		;;
	esac
done <<END
$pods
END
exit $result
