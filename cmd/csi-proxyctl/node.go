package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/client/pipe"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

func (a *app) nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "node METHOD [FIELD=VALUE... | JSON | @FILE | -]",
		Short: "Control the simulated node of csi-proxy-sim",
		Long: `Call a method that changes the simulated node of csi-proxy-sim, or shows it, as call
does. The fields of disks, faults, services, targets and servers are those of package
nodespec in JSON; a list is one FIELD=VALUE for each element, so an account with a user
and a password is JSON. Windows notices a new disk and a new size with the next rescan.

  Show                everything that the node has
  AttachDisk          a new disk or, with its id, a detached one
  DetachDisk          a disk, even if it is in use
  DiscardDisk         a detached disk with its content
  GrowDisk            a disk
  Fail                a Win32 call fails, or takes longer
  ClearFaults         all faults
  SetService          create or replace a Windows service
  SetIscsiTarget      create or replace an iSCSI target
  RemoveIscsiTarget   a target with its sessions and disks
  AddSmbServer        a server with shares
  ChangeSmbServer     its shares, directories, accounts and encryption; down and up
  SetSmbMappingStatus what Windows reports for a mapping
  Reboot              close all handles, and restore the stored state of disks`,
		Example: `  csi-proxyctl node AttachDisk size=10GiB serial=VOL0001
  csi-proxyctl node GrowDisk disk_number=1 size_bytes=20GiB
  csi-proxyctl node Fail call=Format error=ERROR_WRITE_PROTECT times=1
  csi-proxyctl node SetIscsiTarget iqn=iqn.2003-01.org.example:disk1 portals=10.0.0.1 luns.disk.size=10GiB
  csi-proxyctl node ChangeSmbServer name=files.example.com down=true`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &hinted{fmt.Errorf("node needs a method"), didYouMean("", simulator.methods())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			method := simulator.service.Methods().ByName(protoreflect.Name(args[0]))
			if method == nil {
				return &hinted{fmt.Errorf("node has no method %q", args[0]), didYouMean(args[0], simulator.methods())}
			}
			in, err := a.nodeRequest(method, args[1:])
			if err != nil {
				return err
			}
			return a.onNode(c.Context(), method, in)
		},
	}
}

// simulator is the service that controls a simulated node.
var simulator = api{group: "node", service: simcontrol.File_simnode_v1_node_proto.Services().Get(0)}

func (a *app) onNode(ctx context.Context, method protoreflect.MethodDescriptor, in proto.Message) error {
	conn, err := a.connect(pipe.Path(simcontrol.Pipe))
	if err != nil {
		return &hinted{err, "is csi-proxy-sim running? csi-proxy has no simulated node to control"}
	}
	defer conn.Close()
	out, err := a.invoke(ctx, conn, "node", method, in)
	if err != nil {
		return err
	}
	described, ok := out.(*simcontrol.Description)
	if !ok {
		return a.printMessage(out)
	}
	return a.printValue(json.RawMessage(described.Json))
}

// described are the types of what methods take as JSON.
var described = map[string]reflect.Type{
	"AttachDisk":     reflect.TypeFor[nodespec.Disk](),
	"Fail":           reflect.TypeFor[nodespec.Fault](),
	"SetService":     reflect.TypeFor[nodespec.Service](),
	"SetIscsiTarget": reflect.TypeFor[nodespec.ISCSITarget](),
	"AddSmbServer":   reflect.TypeFor[nodespec.SMBServer](),
}

func (a *app) nodeRequest(method protoreflect.MethodDescriptor, args []string) (proto.Message, error) {
	t := described[string(method.Name())]
	if t == nil {
		text, err := a.requestText(args, func(tree map[string]any, names []string, value string) error {
			return set(tree, method.Input(), names, value)
		})
		if err != nil {
			return nil, err
		}
		return request(method.Input(), text)
	}
	text, err := a.requestText(args, func(tree map[string]any, names []string, value string) error {
		setIn(tree, t, names, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	in, err := newMessage(method.Input())
	if err == nil {
		in.ProtoReflect().Set(method.Input().Fields().Get(0), protoreflect.ValueOfString(string(text)))
	}
	return in, err
}

// setIn sets a value in the tree of a description of type t. The node refuses names that are no
// fields.
func setIn(tree map[string]any, t reflect.Type, names []string, value string) {
	name := names[0]
	field := reflect.TypeFor[any]()
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
				field = f.Type
			}
		}
	}
	if len(names) > 1 && field.Kind() == reflect.Slice {
		element := map[string]any{}
		setIn(element, field.Elem(), names[1:], value)
		list, _ := tree[name].([]any)
		tree[name] = append(list, element)
		return
	}
	if len(names) > 1 {
		inner, _ := tree[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		tree[name] = inner
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		setIn(inner, field, names[1:], value)
		return
	}
	if list, ok := inJSON(field, value); ok || field.Kind() != reflect.Slice {
		tree[name] = list
		return
	}
	element, _ := inJSON(field.Elem(), value)
	list, _ := tree[name].([]any)
	tree[name] = append(list, element)
}

// inJSON returns a value of a type: as it is if that is JSON for it, and otherwise as a text. It
// reports whether the type has such a value.
func inJSON(t reflect.Type, value string) (json.RawMessage, bool) {
	if t.Kind() != reflect.String && json.Unmarshal([]byte(value), reflect.New(t).Interface()) == nil {
		return json.RawMessage(value), true
	}
	quoted, _ := json.Marshal(value) // a string
	ok := json.Unmarshal(quoted, reflect.New(t).Interface()) == nil
	if !ok && json.Valid([]byte(value)) {
		return json.RawMessage(value), false // the node says what is wrong
	}
	return quoted, ok
}
