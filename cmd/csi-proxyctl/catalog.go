package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// Each registers the version in its .proto file; a test finds those that are missing here.
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta2"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1beta3"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/disk/v2alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1beta2"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v2alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/smb/v1beta2"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/smb/v2alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta2"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1beta3"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v2alpha1"
	_ "github.com/kubernetes-csi/csi-proxy/client/api/volume/v3alpha1"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// api is a version of an API group.
type api struct {
	group   string
	version apiversion.Version
	service protoreflect.ServiceDescriptor
}

func (a api) String() string { return a.group + "/" + a.version.String() }

// name returns the name of its pipe, and pipe its path.
func (a api) name() string { return "csi-proxy-" + a.group + "-" + a.version.String() }
func (a api) pipe() string { return pipe.Path(a.name()) }

// catalog returns all APIs that this command knows, sorted by group and version. A
// csi-proxy of the same release serves them.
func catalog() []api {
	var all []api
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		v, err := apiversion.NewVersion(string(f.Package()))
		if err == nil && f.Services().Len() == 1 {
			s := f.Services().Get(0)
			all = append(all, api{group: strings.ToLower(string(s.Name())), version: v, service: s})
		}
		return true
	})
	slices.SortFunc(all, func(a, b api) int {
		return cmp.Or(strings.Compare(a.group, b.group), int(a.version.Compare(b.version)))
	})
	return all
}

// findAPI returns the API with a name such as disk/v1.
func findAPI(name string) (api, error) {
	all := catalog()
	for _, a := range all {
		if a.String() == name {
			return a, nil
		}
	}
	group, version, ok := strings.Cut(name, "/")
	var groups, versions []string
	for _, a := range all {
		if !slices.Contains(groups, a.group) {
			groups = append(groups, a.group)
		}
		if a.group == group {
			versions = append(versions, a.version.String())
		}
	}
	switch {
	case !ok && versions != nil:
		newest := versions[len(versions)-1]
		return api{}, &hinted{fmt.Errorf("%q: want GROUP/VERSION", name),
			fmt.Sprintf("%s has the versions %s; csi-proxyctl call %s/%s lists the methods", name, strings.Join(versions, ", "), name, newest)}
	case !ok:
		return api{}, &hinted{fmt.Errorf("%q: want GROUP/VERSION", name), didYouMean(name, groups)}
	case versions == nil:
		return api{}, &hinted{fmt.Errorf("there is no API group %q", group), didYouMean(group, groups)}
	}
	return api{}, &hinted{fmt.Errorf("%s has no version %q", group, version), didYouMean(version, versions)}
}

// method returns a method by its name.
func (a api) method(name string) (protoreflect.MethodDescriptor, error) {
	methods := a.service.Methods()
	if m := methods.ByName(protoreflect.Name(name)); m != nil {
		return m, nil
	}
	var elsewhere []string
	for _, other := range catalog() {
		if other.service.Methods().ByName(protoreflect.Name(name)) != nil {
			elsewhere = append(elsewhere, other.String())
		}
	}
	hint := didYouMean(name, a.methods())
	if elsewhere != nil {
		hint = "these versions have it: " + strings.Join(elsewhere, ", ")
	}
	return nil, &hinted{fmt.Errorf("%s has no method %q", a, name), hint}
}

// methods returns the names of all methods.
func (a api) methods() []string {
	var all []string
	for i := range a.service.Methods().Len() {
		all = append(all, string(a.service.Methods().Get(i).Name()))
	}
	return all
}

// newMessage returns an empty message of a type.
func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}

// connect connects to a pipe.
func connect(path string) (*grpc.ClientConn, error) {
	conn, err := transport.Connect(path, transport.RequireTrustedOwner()) // requests hold passwords, and answers decide what is cleared
	if err != nil {
		return nil, &failure{err: err}
	}
	return conn, nil
}

// withShortLimit returns ctx with the time limit of an operation that is usually fast. If
// --timeout is given, it is the limit instead.
func (a *app) withShortLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if a.timeoutSet() {
		limit = a.timeout
	}
	return context.WithTimeout(ctx, limit)
}

// The time limits of a command that only looks, unless --timeout is given: people look when
// something hangs.
const (
	lookLimit     = 10 * time.Second // of all that it asks
	answerLimit   = 3 * time.Second  // of an answer that is usually fast
	describeLimit = 8 * time.Second  // of a description, in which a device may take five seconds
)

// waitIsLong is how long a command that only looks waits before it checks whether csi-proxy answers
// at all.
const waitIsLong = 2 * time.Second

// bounded makes a command that only looks end within lookLimit, and say in one sentence that
// csi-proxy does not answer at all.
func (a *app) bounded(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		whole := c.Context()
		if !a.timeoutSet() {
			a.timeout = lookLimit
			ctx, cancel := context.WithTimeout(whole, lookLimit)
			defer cancel()
			c.SetContext(ctx)
			defer c.SetContext(whole)
		}
		mute := make(chan bool, 1)
		look := time.AfterFunc(waitIsLong, func() { mute <- silent(a.probes(whole)) })
		err := run(c, args)
		looked, code := !look.Stop(), statusIn(err).Code()
		switch late := errors.Is(err, context.DeadlineExceeded); {
		case whole.Err() != nil || !late && code != codes.DeadlineExceeded && code != codes.Unavailable:
		case looked && <-mute:
			return &failure{err: &hinted{errors.New(noAnswer), "csi-proxyctl doctor says what to do"}}
		case late && statusIn(err) == nil:
			return &failure{err: &hinted{fmt.Errorf("csi-proxy did not answer within %v", a.timeout), "csi-proxyctl doctor says what does not answer; --timeout waits longer"}}
		}
		return err
	}
}

// limited returns ctx with the time limit for a response.
func (a *app) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.timeout)
}
