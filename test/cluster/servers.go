package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernetes-csi/csi-proxy/v2/test/cluster/programs"
)

// Servers are etcd and kube-apiserver.
type Servers struct {
	Config  *rest.Config // of the administrator
	Version string       // of kube-apiserver

	dir       string
	exe       string
	processes []*programs.Process
}

// limit is how long a program may take until it is ready, and a rollout on a few nodes.
const limit = 5 * time.Minute

// StartServers starts both, from the program kubernetes, with their files in dir. args are
// further arguments of kube-apiserver.
func StartServers(ctx context.Context, dir, exe string, args ...string) (_ *Servers, err error) {
	s := &Servers{dir: dir, exe: exe}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.startEtcd(ctx); err != nil {
		return nil, err
	}
	token := rand.Text()
	if err := s.write("tokens.csv", []byte(token+`,admin,admin,"system:masters"`+"\n")); err != nil {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	// The key signs the tokens of service accounts.
	if err := s.write("accounts.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})); err != nil {
		return nil, err
	}
	port, release, err := reservePort()
	if err != nil {
		return nil, err
	}
	defer release()
	s.Config = &rest.Config{Host: "https://127.0.0.1:" + port, BearerToken: token, QPS: 500, Burst: 500}
	s.Config.Insecure = true // its certificate is of this minute
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	if err := s.writeKubeconfig(); err != nil {
		return nil, err
	}
	ready := func() error { return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() }
	args = append([]string{"--etcd-servers=unix://" + s.etcd(), "--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(dir, "certs"), "--authorization-mode=RBAC",
		"--token-auth-file=" + filepath.Join(dir, "tokens.csv"), "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://localhost",
		// HostProcess containers are privileged. Without this flag the server refuses the chart.
		"--allow-privileged", "--service-account-key-file=" + s.key(), "--service-account-signing-key-file=" + s.key()}, args...)
	if err := s.start(ctx, "kube-apiserver", ready, args...); err != nil {
		return nil, err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return nil, err
	}
	s.Version = version.GitVersion
	return s, nil
}

// startEtcd starts etcd. It has no authentication, so it listens on sockets in the
// directory, which other users of the machine cannot open.
func (s *Servers) startEtcd(ctx context.Context) error {
	// There is only one member, so these are never used. etcd wants them to have a host.
	const advertised = "http://127.0.0.1:1"
	p, err := programs.StartIn(s.dir, s.dir, "etcd", nil, s.exe, "etcd",
		"--data-dir="+filepath.Join(s.dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls=unix://"+s.etcd(), "--advertise-client-urls="+advertised,
		// Of this one etcd takes only the host, as a file in the directory that it runs in.
		"--listen-peer-urls=unix://etcd-peers.sock", "--initial-advertise-peer-urls="+advertised, "--initial-cluster=default="+advertised)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.etcd())
	}}}
	defer client.CloseIdleConnections()
	return await(ctx, p, func() error { return get(ctx, client, "http://etcd/health") })
}

// etcd returns the socket of etcd.
func (s *Servers) etcd() string { return filepath.Join(s.dir, "etcd.sock") }

// key returns the file with the key of service accounts.
func (s *Servers) key() string { return filepath.Join(s.dir, "accounts.key") }

// Kubeconfig returns the file that says how the administrator reaches kube-apiserver.
func (s *Servers) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// Processes returns the programs that run.
func (s *Servers) Processes() []*programs.Process { return s.processes }

// Close ends both, and what start has started since, the last one first.
func (s *Servers) Close() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		if p.Name == "etcd" {
			p.Kill() // waits for watchers otherwise, and nothing is kept
			continue
		}
		errs = append(errs, p.Stop())
	}
	s.processes = nil
	return errors.Join(errs...)
}

// startControllers starts kube-controller-manager and kube-scheduler.
func (s *Servers) startControllers(ctx context.Context) error {
	common := []string{"--kubeconfig=" + s.Kubeconfig(), "--leader-elect=false", "--bind-address=127.0.0.1", "--cert-dir=" + filepath.Join(s.dir, "certs"), "--authorization-always-allow-paths=/healthz",
		"--kube-api-qps=200", "--kube-api-burst=400"}
	start := func(name string, args ...string) error {
		port, release, err := reservePort()
		if err != nil {
			return err
		}
		defer release()
		return s.start(ctx, name, listens(port), slices.Concat(common, args, []string{"--secure-port=" + port})...)
	}
	err := start("kube-controller-manager", "--service-account-private-key-file="+s.key(), "--allocate-node-cidrs=false", "--node-monitor-period=1s", "--node-monitor-grace-period=15s")
	if err != nil {
		return err
	}
	return start("kube-scheduler")
}

// start starts a program that is in kubernetes, and waits until it is ready.
func (s *Servers) start(ctx context.Context, name string, ready func() error, args ...string) error {
	return s.startExe(ctx, s.exe, name, ready, append([]string{name}, args...)...)
}

func (s *Servers) startExe(ctx context.Context, exe, name string, ready func() error, args ...string) error {
	p, err := programs.Start(s.dir, name, nil, exe, args...)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return await(ctx, p, ready)
}

// await waits until a program is ready.
func await(ctx context.Context, p *programs.Process, ready func() error) error {
	err := until(ctx, p.Done(), p.Name, ready)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w; the end of its output:\n%s", err, p.End())
}

// until waits until a condition has no complaint, or ended is closed.
func until(ctx context.Context, ended <-chan struct{}, what string, condition func() error) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if err = condition(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errors.New(what + " has ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: not ready after %v: %w", what, limit, err)
}

func (s *Servers) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(s.dir, name), content, 0o600)
}

// writeKubeconfig writes the file for programs that reach kube-apiserver.
func (s *Servers) writeKubeconfig() error {
	const name = "simulated"
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{name: {Server: s.Config.Host, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: s.Config.BearerToken}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, s.Kubeconfig())
}

// reservePort returns a free port of loopback, and keeps it free until release. A socket has the
// port and does not listen, so no connection of another program gets the port, and no listener
// that asks for any. The program that is to have the port can listen on it, because this socket
// and those of Go have SO_REUSEADDR.
func reservePort() (port string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	release = func() { _ = syscall.Close(fd) }
	var at syscall.Sockaddr
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		at, err = syscall.Getsockname(fd)
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("reserve a port: %w", err)
	}
	return strconv.Itoa(at.(*syscall.SockaddrInet4).Port), release, nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Status, strings.TrimSpace(body.String()))
	}
	return nil
}
