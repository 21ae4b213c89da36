package script

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// API is one version of an API group in a published module.
type API struct {
	Name string // "disk/v1"
	New  any    // its generated constructor: func(*grpc.ClientConn) disk.DiskClient
}

// service returns the name of the gRPC service, such as "v1.Disk".
func (a API) service() string {
	_, version, _ := strings.Cut(a.Name, "/")
	return version + "." + strings.TrimSuffix(reflect.TypeOf(a.New).Out(0).Name(), "Client")
}

// group returns the group, such as "disk".
func (a API) group() string {
	group, _, _ := strings.Cut(a.Name, "/")
	return group
}

// methods returns the names of the client's methods.
func (a API) methods() []string {
	client := reflect.TypeOf(a.New).Out(0)
	var names []string
	for i := range client.NumMethod() {
		names = append(names, client.Method(i).Name)
	}
	return names
}

// Conn is a connection of the module's version of gRPC.
type Conn interface{ Close() error }

// Module is a published client with the version of gRPC that it was built with.
type Module struct {
	// Packages is the common path of the packages of its API versions.
	Packages string

	// APIs are these versions.
	APIs []API

	// Clients are the published functions NewClient, by the name of the API. They
	// need named pipes and are used instead of New on Windows. Elsewhere Clients
	// is nil.
	Clients map[string]func() (any, error)

	// Connect connects to the pipe of an API as the published client does, or to
	// its socket on other systems.
	Connect func(group, version string, socket func(pipe string) string) (Conn, error)

	// Invoke calls a method that the client may not have. in and out are messages
	// of any type of the client.
	Invoke func(ctx context.Context, c Conn, path string, in, out any) error

	// Status returns the code and the message of a gRPC error.
	Status func(error) (code, message string)
}

// Run runs the script for every API of the module.
func (m Module) Run(t *testing.T) {
	sections, err := readScript()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("versions", m.complete)
	for _, a := range m.APIs {
		t.Run(a.Name, func(t *testing.T) {
			called := map[string]bool{}
			for _, s := range sections {
				if slices.Contains(s.apis, a.Name) {
					for _, st := range s.steps {
						if st.command == nil && st.code == "" && (st.api == "" || st.api == a.Name) {
							called[st.method] = true
						}
					}
					t.Run(s.title, func(t *testing.T) { m.section(t, s, a) })
				}
			}
			for _, method := range a.methods() {
				if !called[method] {
					t.Errorf("no section calls %s %s with success", a.Name, method)
				}
			}
			t.Run("methods of other versions", func(t *testing.T) { m.lacking(t, a) })
		})
	}
}

// complete checks that APIs lists all versions of the published module.
func (m Module) complete(t *testing.T) {
	for _, a := range m.APIs {
		if m.Clients != nil && m.Clients[a.Name] == nil {
			t.Errorf("Clients has no function for %s", a.Name)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("needs the go command: runs on the machine that builds the tests")
	}
	out, err := exec.Command("go", "list", m.Packages+"/...").Output()
	if err != nil {
		t.Fatalf("go list %s/...: %v", m.Packages, err)
	}
	var published, listed []string
	for _, p := range strings.Fields(string(out)) {
		if name, ok := strings.CutPrefix(p, m.Packages+"/"); ok {
			published = append(published, name)
		}
	}
	for _, a := range m.APIs {
		listed = append(listed, a.Name)
		path := m.Packages + "/" + a.Name
		if got := reflect.TypeOf(a.New).Out(0).PkgPath(); got != path {
			t.Errorf("the client of %s is from package %s, want %s", a.Name, got, path)
		}
	}
	slices.Sort(published)
	slices.Sort(listed)
	if len(published) == 0 || !slices.Equal(published, listed) {
		t.Errorf("the published versions are\n%s\nwant those in the list\n%s", published, listed)
	}
}

// run is a running section.
type run struct {
	Module
	t       *testing.T
	daemon  *Daemon
	vars    variables
	clients map[string]reflect.Value
}

func (m Module) section(t *testing.T, s section, a API) {
	r := run{Module: m, t: t, daemon: Start(t), clients: map[string]reflect.Value{}}
	_, version, _ := strings.Cut(a.Name, "/")
	r.vars = variables{"version": version, "NUL": "\x00", "long": `C:\var\lib\kubelet\` + strings.Repeat("x", 261-len(`C:\var\lib\kubelet\`))}
	for _, st := range s.steps {
		if len(st.command) == 2 && st.command[0] == "sleep" {
			d, err := time.ParseDuration(st.command[1])
			if err != nil {
				t.Fatalf("%s line %d: %v", s.file, st.line, err)
			}
			time.Sleep(d)
			continue
		}
		if st.command != nil {
			var args []string
			for _, arg := range st.command {
				args = append(args, r.vars.expand(arg))
			}
			r.daemon.Control(t, args...)
			continue
		}
		if st.api == "" {
			st.api = a.Name
		}
		if err := r.call(st); err != nil {
			t.Fatalf("%s line %d: %s %s %s: %v", s.file, st.line, st.api, st.method, st.request, err)
		}
	}
	if shown := r.daemon.Control(t, "node", "Show"); strings.Contains(shown, `"openHandles": [`+"\n") {
		t.Errorf("the daemon left handles open:\n%s", shown)
	}
}

// connect connects to an API until the test ends.
func (m Module) connect(t *testing.T, d *Daemon, a API) (Conn, error) {
	group, version, _ := strings.Cut(a.Name, "/")
	conn, err := m.Connect(group, version, d.Socket)
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// client returns the published client of an API.
func (r *run) client(name string) (reflect.Value, error) {
	if c, ok := r.clients[name]; ok {
		return c, nil
	}
	i := slices.IndexFunc(r.APIs, func(a API) bool { return a.Name == name })
	if i < 0 {
		return reflect.Value{}, fmt.Errorf("the published module has no %s", name)
	}
	if r.Clients != nil {
		wrapper, err := r.Clients[name]()
		if err != nil {
			return reflect.Value{}, err
		}
		r.t.Cleanup(func() { wrapper.(Conn).Close() })
		r.clients[name] = reflect.ValueOf(wrapper)
		return r.clients[name], nil
	}
	conn, err := r.connect(r.t, r.daemon, r.APIs[i])
	if err != nil {
		return reflect.Value{}, err
	}
	c := reflect.ValueOf(r.APIs[i].New).Call([]reflect.Value{reflect.ValueOf(conn)})[0]
	r.clients[name] = c
	return c, nil
}

func (r *run) call(st step) error {
	client, err := r.client(st.api)
	if err != nil {
		return err
	}
	method := client.MethodByName(st.method)
	if !method.IsValid() {
		return fmt.Errorf("the published client has no method %s", st.method)
	}
	in := reflect.New(method.Type().In(1).Elem())
	if err := r.fill(in.Interface(), st.request); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := method.Call([]reflect.Value{reflect.ValueOf(ctx), in})
	if failure, failed := out[1].Interface().(error); failed {
		code, text := r.Status(failure)
		if strings.Contains(text, "%!") || strings.Contains(text, "0xc0") {
			return fmt.Errorf("the error contains a pointer or a formatting error: %s", text)
		}
		want := r.vars.expand(st.text)
		if st.code == "" || code != st.code || !matchError(text, want) {
			return fmt.Errorf("failed with\n  ! %s %s\nwant\n  %s", code, text, st.wanted(r.vars))
		}
		return nil
	}
	got := tree(out[0])
	if st.code != "" {
		return fmt.Errorf("succeeded with\n  %s\nwant\n  %s", show(got), st.wanted(r.vars))
	}
	want, err := decode(st.want)
	if err != nil {
		return err
	}
	if err := match(got, want, r.vars, "the response"); err != nil {
		return fmt.Errorf("%w; the whole response is\n  %s", err, show(got))
	}
	return nil
}

// wanted returns the expected result as in the script.
func (st step) wanted(vars variables) string {
	if st.code != "" {
		return "! " + st.code + " " + vars.expand(st.text)
	}
	return st.want
}

// fill sets the fields of a request. A field that the message does not have is
// an error.
func (r *run) fill(message any, text string) error {
	v, err := decode(text)
	if err != nil {
		return err
	}
	b, err := json.Marshal(r.vars.in(v))
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	return d.Decode(message)
}

// lacking calls the methods that other versions of the group have and this one lacks.
func (m Module) lacking(t *testing.T, a API) {
	conn, err := m.connect(t, Start(t), a)
	if err != nil {
		t.Fatal(err)
	}
	own := a.methods()
	// Any message works, because the call is refused before it is decoded.
	some, _ := reflect.TypeOf(a.New).Out(0).MethodByName(own[0])
	called := map[string]bool{}
	for _, other := range m.APIs {
		if other.group() != a.group() {
			continue
		}
		for _, method := range other.methods() {
			if slices.Contains(own, method) || called[method] {
				continue
			}
			called[method] = true
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			in, out := reflect.New(some.Type.In(1).Elem()).Interface(), reflect.New(some.Type.Out(0).Elem()).Interface()
			err := m.Invoke(ctx, conn, "/"+a.service()+"/"+method, in, out)
			cancel()
			if err == nil {
				t.Errorf("%s, which %s lacks, succeeded", method, a.Name)
			} else if code, text := m.Status(err); code != "Unimplemented" {
				t.Errorf("%s, which %s lacks, failed with %s %s, want Unimplemented", method, a.Name, code, text)
			}
		}
	}
}
