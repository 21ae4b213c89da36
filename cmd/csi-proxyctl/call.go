package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (a *app) callCommand() *cobra.Command {
	template := false
	c := &cobra.Command{
		Use:   "call GROUP/VERSION METHOD [FIELD=VALUE... | JSON | @FILE | -]",
		Short: "Call a method and print its response",
		Long: `Call a method of any version and print its response as JSON.

The request consists of fields, each as FIELD=VALUE. Values need no quotes and no
escaping, a size may have a unit, as in size_bytes=10GiB, a nested field is written
as FIELD.FIELD=VALUE, and a list as one FIELD=VALUE for each element. Alternatively, the
request is JSON: an argument, the contents of a file (@FILE), or standard input
("-"). Without any, it is empty. Field names are those of the .proto file or of
JSON (disk_number or diskNumber). --template prints a request with all fields and
does not call the method.`,
		Example: `  csi-proxyctl call disk/v1 ListDiskIDs
  csi-proxyctl call disk/v1 PartitionDisk --template
  csi-proxyctl call filesystem/v1 Mkdir "path=C:\var\lib\kubelet\plugins"
  csi-proxyctl call iscsi/v1alpha2 AddTargetPortal target_portal.target_address=10.0.0.1
  csi-proxyctl call volume/v1 ResizeVolume volume_id=ID size_bytes=10GiB
  csi-proxyctl call volume/v1 FormatVolume @request.json`,
		Args: callArgs,
		RunE: func(c *cobra.Command, args []string) error {
			svc, err := findAPI(args[0])
			if err != nil {
				return err
			}
			method, err := svc.method(args[1])
			if err != nil {
				return err
			}
			if template {
				in, err := newMessage(method.Input())
				if err != nil {
					return err
				}
				fill(in.ProtoReflect())
				return a.printMessage(in)
			}
			text, err := a.requestText(args[2:], func(tree map[string]any, names []string, value string) error {
				return set(tree, method.Input(), names, value)
			})
			if err != nil {
				return err
			}
			in, err := request(method.Input(), text)
			if err != nil {
				return err
			}
			conn, err := a.connect(svc.pipe())
			if err != nil {
				return &hinted{err, a.otherVersions(svc, err)}
			}
			defer conn.Close()
			out, err := a.invoke(c.Context(), conn, svc.String(), method, in)
			if err != nil {
				return err
			}
			return a.printMessage(out)
		},
	}
	c.Flags().BoolVar(&template, "template", false, "print a request with all fields, and do not call the method")
	return c
}

// invoke makes a call. where names its service in the error.
func (a *app) invoke(ctx context.Context, conn *grpc.ClientConn, where string, method protoreflect.MethodDescriptor, in proto.Message) (proto.Message, error) {
	out, err := newMessage(method.Output())
	if err != nil {
		return nil, err
	}
	ctx, cancel := a.limited(ctx)
	defer cancel()
	if err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name()), in, out); err != nil {
		return nil, &failure{what: fmt.Sprintf("%s %s", where, method.Name()), err: err}
	}
	return out, nil
}

// callArgs fails with the possible values if the API or the method is missing.
func callArgs(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return &hinted{errors.New("call needs GROUP/VERSION METHOD"), "csi-proxyctl versions lists the groups and versions"}
	case 1:
		svc, err := findAPI(args[0])
		if err != nil {
			return err
		}
		return &hinted{fmt.Errorf("call %s needs a method", svc), didYouMean("", svc.methods())}
	}
	return nil
}

// fill sets every field that is a message to an empty message.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); f.Message() != nil && !f.IsList() && !f.IsMap() {
			fill(m.Mutable(f).Message())
		}
	}
}

// requestText returns the request as JSON, from arguments, a file or standard input. set sets the
// value of an argument in the tree of the request.
func (a *app) requestText(args []string, set func(tree map[string]any, names []string, value string) error) ([]byte, error) {
	if len(args) == 1 {
		argument := strings.TrimSpace(args[0])
		name, isFile := strings.CutPrefix(argument, "@")
		switch {
		case isFile:
			return os.ReadFile(name)
		case argument == "-":
			text, err := io.ReadAll(a.stdin)
			if err != nil {
				return nil, &failure{err: fmt.Errorf("standard input: %w", err)}
			}
			return text, nil
		case !strings.Contains(argument, "=") || strings.HasPrefix(argument, "{"):
			return []byte(argument), nil
		}
	}
	tree := map[string]any{}
	for i, arg := range args {
		// Errors must not contain values, which may be secrets.
		path, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("argument %d after the method: want FIELD=VALUE", i+1)
		}
		if err := set(tree, strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return json.Marshal(tree)
}

// set sets a value in the tree of a request. It also sets names that are not fields;
// checkFields reports them later.
func set(tree map[string]any, d protoreflect.MessageDescriptor, names []string, value string) error {
	name, field := names[0], fieldOf(d, names[0])
	if field != nil {
		name = string(field.Name()) // a field also has a JSON name
	}
	if len(names) > 1 {
		inner, _ := tree[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		tree[name] = inner
		if field != nil && field.Message() != nil && !field.IsMap() {
			return set(inner, field.Message(), names[1:], value)
		}
		return nil
	}
	if field != nil && field.IsList() && field.Message() == nil {
		list, _ := tree[name].([]string)
		tree[name] = append(list, value)
		return nil
	}
	if _, twice := tree[name]; twice {
		return errors.New("given twice")
	}
	tree[name] = value
	if size, err := nodespec.ParseSize(value); err == nil && isSize(field) {
		tree[name] = strconv.FormatInt(int64(size), 10)
	}
	if field != nil && (field.Kind() == protoreflect.BoolKind || field.Message() != nil) {
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			return fmt.Errorf("want %s", map[bool]string{true: "true or false", false: "JSON"}[field.Message() == nil])
		}
		tree[name] = v
	}
	return nil
}

// isSize reports whether a field is a number of bytes.
func isSize(f protoreflect.FieldDescriptor) bool {
	return f != nil && (f.Kind() == protoreflect.Int64Kind || f.Kind() == protoreflect.Uint64Kind) && strings.Contains(string(f.Name()), "size")
}

// fieldOf returns a field by its .proto or JSON name.
func fieldOf(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return d.Fields().ByJSONName(name)
}

// otherVersions returns a hint with the versions of the group that are served, if the
// pipe of svc does not exist.
func (a *app) otherVersions(svc api, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var served []string
	for _, other := range catalog() {
		if other.group != svc.group || other.version == svc.version {
			continue
		}
		if conn, err := a.connect(other.pipe()); err == nil {
			conn.Close()
			served = append(served, other.String())
		}
	}
	if served == nil {
		return ""
	}
	return "this node serves " + strings.Join(served, ", ")
}

// request converts JSON to a message.
func request(d protoreflect.MessageDescriptor, text []byte) (proto.Message, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		err = fmt.Errorf("request: %w", err)
		if strings.Contains(string(text), `\`) {
			return nil, &hinted{err, `in JSON a backslash is written twice: "C:\\var\\lib"`}
		}
		return nil, err
	}
	if err := checkFields(d, tree, string(d.Name())); err != nil {
		return nil, err
	}
	m, err := newMessage(d)
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return m, nil
}

// checkFields finds unknown field names and wrong types. Its errors are better than those
// of protojson. No request has messages in lists or maps.
func checkFields(d protoreflect.MessageDescriptor, tree any, where string) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want a JSON object", where)
	}
	for name, value := range object {
		field := fieldOf(d, name)
		if field == nil {
			var known []string
			for i := range d.Fields().Len() {
				known = append(known, string(d.Fields().Get(i).Name()))
			}
			err := fmt.Errorf("%s has no field %q", where, name)
			if len(known) == 0 {
				return &hinted{err, where + " has no fields"}
			}
			return &hinted{err, didYouMean(name, known)}
		}
		if field.Message() != nil && !field.IsList() && !field.IsMap() && value != nil {
			if err := checkFields(field.Message(), value, where+"."+string(field.Name())); err != nil {
				return err
			}
			continue
		}
		if _, isText := value.(string); field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap() && value != nil && !isText {
			return fmt.Errorf("%s.%s: want a string", where, field.Name()) // protojson would print the value, which may be a password
		}
		if err := checkEnum(field, value, where+"."+string(field.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkEnum finds unknown names of enum values.
func checkEnum(field protoreflect.FieldDescriptor, value any, where string) error {
	name, ok := value.(string)
	if field.Enum() == nil || !ok {
		return nil
	}
	var known []string
	for i := range field.Enum().Values().Len() {
		known = append(known, string(field.Enum().Values().Get(i).Name()))
	}
	if slices.Contains(known, name) {
		return nil
	}
	return &hinted{fmt.Errorf("%s cannot be %q", where, name), didYouMean(name, known)}
}

// errIncomplete is the error of a list if some parts of it failed; these errors have been
// reported.
var errIncomplete = errors.New("the list is incomplete; the errors above name what is missing")
