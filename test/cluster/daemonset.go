package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// The DaemonSet of CSI Proxy, and the image of its pods. The image's tag is a build of
// csi-proxy-sim: [programs.New] or [programs.Old].
const (
	proxyNamespace = "kube-system"
	proxyName      = "csi-proxy"
	image          = "example.com/csi-proxy-sim"
)

// serves is a condition of the DaemonSet's pods, and they are ready with it only. Without it they
// would be before their container has started, because the kubelet does not look at real ones.
const serves corev1.PodConditionType = "csi-proxy.example.com/serves"

// oldAPIs is what the old build serves: everything but version v1 of the disks.
const oldAPIs = "disk/v1alpha1,disk/v1beta1,disk/v1beta2,disk/v1beta3,filesystem,iscsi,smb,system,volume"

// makeDaemonSet makes the DaemonSet. On each node its pod decides which build runs.
func (c *Cluster) makeDaemonSet(ctx context.Context) error {
	labels := map[string]string{"app.kubernetes.io/name": proxyName}
	one, grace := intstr.FromInt32(1), int64(75)
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: proxyName, Labels: labels}, Spec: appsv1.DaemonSetSpec{
		MinReadySeconds: 2, // before the next node follows
		Selector:        &metav1.LabelSelector{MatchLabels: labels},
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &one},
		},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: serves}},
			TerminationGracePeriodSeconds: &grace,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:                    []corev1.Container{{Name: proxyName, Image: image + ":" + c.config.Proxy}},
		}},
	}}
	// The server makes its own namespaces soon after it is ready.
	return until(ctx, nil, "the namespace of CSI Proxy", func() error {
		_, err := c.Client.AppsV1().DaemonSets(proxyNamespace).Create(ctx, set, metav1.CreateOptions{})
		return err
	})
}

// Upgrade changes the build of CSI Proxy in the DaemonSet, and waits until Kubernetes has
// replaced it on each node, one after the other. For the build that runs it starts each again.
func (c *Cluster) Upgrade(ctx context.Context, build string) error {
	if !slices.Contains(programs.Builds(), build) {
		return fmt.Errorf("no build %q of CSI Proxy; there are %q", build, programs.Builds())
	}
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}},"spec":{"containers":[{"name":%q,"image":%q}]}}}}`,
		time.Now().Format(time.RFC3339Nano), proxyName, image+":"+build)
	if _, err := c.Client.AppsV1().DaemonSets(proxyNamespace).Patch(ctx, proxyName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return until(ctx, nil, "the rollout of CSI Proxy", func() error { return c.rolledOut(ctx) })
}

// rolledOut returns an error while the DaemonSet has pods that are not of its template, or do
// not run.
func (c *Cluster) rolledOut(ctx context.Context) error {
	set, err := c.Client.AppsV1().DaemonSets(proxyNamespace).Get(ctx, proxyName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := set.Status
	if want := int32(len(c.Nodes)); s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < want || s.NumberAvailable < want {
		return fmt.Errorf("of %d pods %d are new, and %d run", want, s.UpdatedNumberScheduled, s.NumberAvailable)
	}
	return nil
}

// ProxyVersion asks the node's CSI Proxy for its version: the header of its health check.
func (n *Node) ProxyVersion(ctx context.Context) (_ string, err error) {
	socket := n.PipePath("volume", apiversion.NewVersionOrPanic("v1")) // both builds have it
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var header metadata.MD
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header)); err != nil {
		return "", err
	}
	version := header.Get("csi-proxy-version")
	if len(version) != 1 {
		return "", fmt.Errorf("%s: the health check has the versions %q, want one", n.Name, version)
	}
	return version[0], nil
}

// startProxy starts a build of csi-proxy-sim, waits until it serves, and says so in the
// condition of its pod. The node's container runtime calls it.
func (n *Node) startProxy(ctx context.Context, build, pod string) (*programs.Process, error) {
	set := n.cluster.config.Programs
	exe, args := set.Sim, []string{"-state-dir=" + n.state()}
	switch build {
	case programs.New:
	case programs.Old:
		exe, args = set.OldSim, append(args, "-enable-api="+oldAPIs)
	default:
		return nil, fmt.Errorf("no build %q of CSI Proxy; there are %q", build, programs.Builds())
	}
	p, err := programs.Start(n.dir, "csi-proxy-sim", []string{"CSI_PROXY_DIR=" + n.Pipes()}, exe, args...)
	if err != nil {
		return nil, err
	}
	n.set(&n.proxy, p)
	err = await(ctx, p, func() error {
		_, err := n.ProxyVersion(ctx)
		return err
	})
	if err == nil {
		patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, serves)
		_, err = n.cluster.Client.CoreV1().Pods(proxyNamespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// awaitProxy waits until the pod of the DaemonSet runs CSI Proxy on the node.
func (n *Node) awaitProxy(ctx context.Context) error {
	return until(ctx, nil, "CSI Proxy of "+n.Name, func() error {
		_, err := n.ProxyVersion(ctx)
		return err
	})
}
