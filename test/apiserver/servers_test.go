package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// build builds a server of this module. The go command keeps an executable that is current.
func build(t *testing.T, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(cache, "csi-proxy", "apiserver", name)
	started := time.Now()
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w "+kubernetesVersion(t), "-o", exe, "./"+name)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	measured(t, "%s: built in %.0f s, %.0f s of processor time", name, time.Since(started).Seconds(), (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	return exe
}

// kubernetesVersion returns the linker's flags that give Kubernetes its version.
func kubernetesVersion(t *testing.T) string {
	t.Helper()
	c := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	c.Env = append(os.Environ(), "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", c.Args, err)
	}
	version := strings.TrimSpace(string(out))
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const to = "-X k8s.io/component-base/version."
	return to + "gitVersion=" + version + " " + to + "gitMajor=" + parts[0] + " " + to + "gitMinor=" + parts[1]
}

// measured records a figure, which the run of the stage prints.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Attr("measured", fmt.Sprintf(format, args...))
}

// start starts a server, which ends with the test. A test that fails prints the end of its log.
func start(t *testing.T, exe string, args ...string) (pid int) {
	t.Helper()
	name := filepath.Base(exe)
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, args...)
	c.Stdout, c.Stderr = log, log
	// The server must not outlive a test that is killed.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		measured(t, "%s: %s MiB at most", name, peak(c.Process.Pid))
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = log.Close()
		if !t.Failed() {
			return
		}
		if text, err := os.ReadFile(log.Name()); err == nil {
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return c.Process.Pid
}

var peakMemory = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// peak returns the largest resident set that a process has had, in MiB.
func peak(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := peakMemory.FindSubmatch(status)
	if err != nil || m == nil {
		return "unknown"
	}
	var kib int
	if _, err := fmt.Sscan(string(m[1]), &kib); err != nil {
		return "unknown"
	}
	return fmt.Sprint(kib >> 10)
}

// freePort returns a port of loopback that no program listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// cluster starts etcd and kube-apiserver and returns how its administrator connects.
func cluster(t *testing.T) *rest.Config {
	t.Helper()
	etcd, server := build(t, "etcd"), build(t, "kube-apiserver")
	dir := t.TempDir()
	clients, peers, port := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t), freePort(t)
	start(t, etcd, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	await(t, "etcd", func() error { return get(clients + "/health") })

	key, token := filepath.Join(dir, "accounts.key"), rand.Text()
	write(t, key, accountsKey(t))
	write(t, filepath.Join(dir, "tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"))
	started := time.Now()
	start(t, server, "--etcd-servers="+clients, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+filepath.Join(dir, "certs"), "--authorization-mode=RBAC",
		"--token-auth-file="+filepath.Join(dir, "tokens.csv"), "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://localhost",
		// HostProcess containers are privileged. Without this flag the server refuses the chart.
		"--allow-privileged", "--service-account-key-file="+key, "--service-account-signing-key-file="+key)
	config := &rest.Config{Host: "https://127.0.0.1:" + port, BearerToken: token, QPS: 500, Burst: 500}
	config.Insecure = true // its certificate is of this minute
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "kube-apiserver", func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
	})
	version, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	measured(t, "kube-apiserver %s: ready %.1f s after its start", version.GitVersion, time.Since(started).Seconds())
	return config
}

// accountsKey returns a key to sign the tokens of service accounts with.
func accountsKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(url string) error {
	r, err := http.Get(url)
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

// await calls try until it succeeds, for a minute.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s is not ready after a minute: %v", what, err)
}
