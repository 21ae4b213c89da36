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

// service is the name of the service in paths, "v1.Disk".
func (a API) service() string {
	_, version, _ := strings.Cut(a.Name, "/")
	return version + "." + strings.TrimSuffix(reflect.TypeOf(a.New).Out(0).Name(), "Client")
}

// group is "disk".
func (a API) group() string {
	group, _, _ := strings.Cut(a.Name, "/")
	return group
}

// methods are the methods that its client has.
func (a API) methods() []string {
	client := reflect.TypeOf(a.New).Out(0)
	var names []string
	for i := range client.NumMethod() {
		names = append(names, client.Method(i).Name)
	}
	return names
}

// Conn is a connection as the module's gRPC has it.
type Conn interface{ Close() error }

// Module is a published client and the gRPC that it was built with.
type Module struct {
	// Packages are the packages that hold its versions, as a pattern of go list
	// without the /... at its end.
	Packages string

	// APIs are those versions.
	APIs []API

	// Clients are the constructors of the published wrappers around these
	// clients, NewClient, by the name of the API. They need named pipes, and stand
	// in for New where there are some.
	Clients map[string]func() (any, error)

	// Connect connects to the pipe of an API as the published client does,
	// through a socket where there are no pipes.
	Connect func(group, version string, socket func(pipe string) string) (Conn, error)

	// Invoke calls a method that the client may not have; in and out are of any
	// of its messages.
	Invoke func(ctx context.Context, c Conn, path string, in, out any) error

	// Status is the code and the message of a gRPC error.
	Status func(error) (code, message string)
}

// Run runs the script for every API of the module.
func (m Module) Run(t *testing.T) {
	sections, err := Sections()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("every published version is in the list", m.complete)
	for _, a := range m.APIs {
		t.Run(a.Name, func(t *testing.T) {
			called := map[string]bool{}
			for _, s := range sections {
				if slices.Contains(s.APIs, a.Name) {
					for _, c := range s.Calls(a.Name) {
						called[c.Method] = called[c.Method] || c.API == a.Name && c.Answered
					}
					t.Run(s.Title, func(t *testing.T) { m.section(t, s, a) })
				}
			}
			for _, method := range a.methods() {
				if !called[method] {
					t.Errorf("no section calls %s %s and is answered", a.Name, method)
				}
			}
			t.Run("methods of other versions", func(t *testing.T) { m.lacking(t, a) })
		})
	}
}

// complete checks that the list of APIs is that of the published module.
func (m Module) complete(t *testing.T) {
	for _, a := range m.APIs {
		if m.Clients != nil && m.Clients[a.Name] == nil {
			t.Errorf("no wrapper for %s is listed", a.Name)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("the go command is asked on the machine that builds the tests")
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
			t.Errorf("the client of %s is from %s", a.Name, got)
		}
	}
	slices.Sort(published)
	slices.Sort(listed)
	if len(published) == 0 || !slices.Equal(published, listed) {
		t.Errorf("published are\n%s\nlisted are\n%s", published, listed)
	}
}

// run is a section under way.
type run struct {
	Module
	t       *testing.T
	daemon  *Daemon
	vars    variables
	clients map[string]reflect.Value
}

func (m Module) section(t *testing.T, s Section, a API) {
	r := run{Module: m, t: t, daemon: Start(t), clients: map[string]reflect.Value{}}
	_, version, _ := strings.Cut(a.Name, "/")
	r.vars = variables{"version": version, "NUL": "\x00", "long": `C:\var\lib\kubelet\` + strings.Repeat("x", 261-len(`C:\var\lib\kubelet\`))}
	for _, st := range s.steps {
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
			t.Fatalf("%s line %d: %s %s %s: %v", s.File, st.line, st.api, st.method, st.request, err)
		}
	}
	if shown := r.daemon.Control(t, "node", "show"); strings.Contains(shown, "open handles") {
		t.Errorf("handles are left open:\n%s", shown)
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

// client is the published client of an API.
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
		return fmt.Errorf("the published client has no such method")
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
			return fmt.Errorf("the error holds a pointer, or what fmt says of a wrong argument: %s", text)
		}
		want := r.vars.expand(st.text)
		if st.code == "" || code != st.code || !matchError(text, want) {
			return fmt.Errorf("failed with\n  ! %s %s\nwant\n  %s", code, text, st.wanted(r.vars))
		}
		return nil
	}
	got := tree(out[0])
	if st.code != "" {
		return fmt.Errorf("answered\n  %s\nwant\n  %s", show(got), st.wanted(r.vars))
	}
	want, err := decode(st.want)
	if err != nil {
		return err
	}
	if err := match(got, want, r.vars, "the answer"); err != nil {
		return fmt.Errorf("%w; answered\n  %s", err, show(got))
	}
	return nil
}

// wanted is what the script says must come.
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

// lacking calls what other versions of the group have and this one has not.
func (m Module) lacking(t *testing.T, a API) {
	conn, err := m.connect(t, Start(t), a)
	if err != nil {
		t.Fatal(err)
	}
	own := a.methods()
	// Any message will do: it is refused before it is looked at.
	some, _ := reflect.TypeOf(a.New).Out(0).MethodByName(own[0])
	asked := map[string]bool{}
	for _, other := range m.APIs {
		if other.group() != a.group() {
			continue
		}
		for _, method := range other.methods() {
			if slices.Contains(own, method) || asked[method] {
				continue
			}
			asked[method] = true
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			in, out := reflect.New(some.Type.In(1).Elem()).Interface(), reflect.New(some.Type.Out(0).Elem()).Interface()
			err := m.Invoke(ctx, conn, "/"+a.service()+"/"+method, in, out)
			cancel()
			if err == nil {
				t.Errorf("%s, which %s lacks, answered", method, a.Name)
			} else if code, text := m.Status(err); code != "Unimplemented" {
				t.Errorf("%s, which %s lacks, answered %s %s", method, a.Name, code, text)
			}
		}
	}
}
