package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func (a *app) callCommand() *cobra.Command {
	template := false
	c := &cobra.Command{
		Use:   "call GROUP/VERSION METHOD [FIELD=VALUE... | JSON | @FILE | -]",
		Short: "Call a method and print its answer",
		Long: `Call a method of any version and print its answer as JSON, or as YAML with -o yaml.

The request is given by its fields, each as FIELD=VALUE, which no shell has to be
told how to quote: a text stands as it is, and a field of a field after a dot. Or
it is JSON: as one argument, from a file by @FILE, from standard input by "-".
Without any it is empty. Fields have the names of the .proto file, or those that
JSON has for them (disk_number or diskNumber). --template prints a request with
all its fields, and calls nothing.`,
		Example: `  csi-proxyctl call disk/v1 ListDiskIDs
  csi-proxyctl call disk/v1 PartitionDisk --template
  csi-proxyctl call filesystem/v1 Mkdir 'path=C:\var\lib\kubelet\plugins'
  csi-proxyctl call iscsi/v1alpha2 AddTargetPortal target_portal.target_address=10.0.0.1
  csi-proxyctl call disk/v1 GetDiskState '{"disk_number": 1}'
  csi-proxyctl call volume/v1 FormatVolume @request.json`,
		Args:              callArgs,
		ValidArgsFunction: completeCall,
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
			text, err := a.requestText(method.Input(), args[2:])
			if err != nil {
				return err
			}
			in, err := request(method.Input(), text)
			if err != nil {
				return err
			}
			out, err := newMessage(method.Output())
			if err != nil {
				return err
			}
			conn, err := connect(svc.pipe())
			if err != nil {
				return &hinted{err, otherVersions(svc, err)}
			}
			defer conn.Close()
			ctx, cancel := a.limited(c.Context())
			defer cancel()
			if err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", svc.service.FullName(), method.Name()), in, out); err != nil {
				return &failure{what: fmt.Sprintf("%s %s", svc, method.Name()), err: err}
			}
			return a.printMessage(out)
		},
	}
	c.Flags().BoolVar(&template, "template", false, "print a request with all its fields, and call nothing")
	return c
}

// callArgs wants a method, and tells which there are.
func callArgs(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return &hinted{errors.New("call needs GROUP/VERSION METHOD"), "csi-proxyctl versions tells the groups and versions"}
	case 1:
		svc, err := findAPI(args[0])
		if err != nil {
			return err
		}
		return &hinted{fmt.Errorf("call %s needs a method", svc), didYouMean("", svc.methods())}
	}
	return nil
}

// fill puts an empty message into every field that holds one.
func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); f.Message() != nil && !f.IsList() && !f.IsMap() {
			fill(m.Mutable(f).Message())
		}
	}
}

// requestText is the JSON of the request that arguments give, or say where to read.
func (a *app) requestText(d protoreflect.MessageDescriptor, args []string) ([]byte, error) {
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
		// Errors do not tell the values: they may be secrets.
		path, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("argument %d after the method: want FIELD=VALUE", i+1)
		}
		if err := set(tree, d, strings.Split(path, "."), value); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return json.Marshal(tree)
}

// set puts a value into the tree of a request, below its names. Names that no
// field has are put there, too, for checkFields to find.
func set(tree map[string]any, d protoreflect.MessageDescriptor, names []string, value string) error {
	name, field := names[0], fieldOf(d, names[0])
	if field != nil {
		name = string(field.Name()) // each field has two
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
	if _, twice := tree[name]; twice {
		return errors.New("is given twice")
	}
	tree[name] = value
	if field != nil && (field.Kind() == protoreflect.BoolKind || field.Message() != nil) {
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			return fmt.Errorf("want %s", map[bool]string{true: "true or false", false: "JSON"}[field.Message() == nil])
		}
		tree[name] = v
	}
	return nil
}

// fieldOf finds a field by either of its names.
func fieldOf(d protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return d.Fields().ByJSONName(name)
}

// otherVersions is the hint where a version is not served, but others of its
// group are; empty if there are none.
func otherVersions(svc api, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	var served []string
	for _, other := range catalog() {
		if other.group != svc.group || other.version == svc.version {
			continue
		}
		if conn, err := connect(other.pipe()); err == nil {
			conn.Close()
			served = append(served, other.String())
		}
	}
	if served == nil {
		return ""
	}
	return "this node serves " + strings.Join(served, ", ")
}

// request makes a message of JSON.
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

// checkFields finds names that no field has, for a better answer than
// protojson has for them. No request has messages in lists or maps.
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
				return &hinted{err, where + " has no fields at all"}
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
			return fmt.Errorf("%s.%s: want a string", where, field.Name()) // protojson would tell a password
		}
		if err := checkEnum(field, value, where+"."+string(field.Name())); err != nil {
			return err
		}
	}
	return nil
}

// checkEnum finds names that no value of an enumeration has.
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

// errIncomplete is the end of a listing of which some parts failed; they have
// been reported.
var errIncomplete = errors.New("the list is incomplete")
