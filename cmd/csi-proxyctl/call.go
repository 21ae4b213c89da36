package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func (a *app) callCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "call GROUP/VERSION METHOD [JSON | -]",
		Short: "Call a method and print its answer",
		Long: `Call a method of any version and print its answer as JSON.

The request is JSON with the names of the .proto file; "-" reads it from
standard input, and without one the request is empty.`,
		Example: `  csi-proxyctl call disk/v1 ListDiskIDs
  csi-proxyctl call volume/v1 GetVolumeStats '{"volume_id": "\\\\?\\Volume{...}\\"}'`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			svc, err := findAPI(args[0])
			if err != nil {
				return err
			}
			method, err := svc.method(args[1])
			if err != nil {
				return err
			}
			text := []byte("{}")
			if len(args) == 3 {
				text = []byte(args[2])
			}
			if string(text) == "-" {
				if text, err = io.ReadAll(a.stdin); err != nil {
					return &failure{err: fmt.Errorf("standard input: %w", err)}
				}
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
				return err
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
}

// request makes a message of JSON.
func request(d protoreflect.MessageDescriptor, text []byte) (proto.Message, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("request: %w", err)
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
// protojson has for them.
func checkFields(d protoreflect.MessageDescriptor, tree any, where string) error {
	object, ok := tree.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want a JSON object", where)
	}
	for name, value := range object {
		field := d.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			field = d.Fields().ByJSONName(name)
		}
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
		}
	}
	return nil
}

// printMessage prints a message as JSON, with the names of its .proto file and
// with the fields that are zero: whether a disk is not online is an answer.
func (a *app) printMessage(m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	// protojson varies its blanks on purpose.
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	if _, err := b.WriteTo(a.stdout); err != nil {
		return &failure{err: err}
	}
	return nil
}

// errIncomplete is the end of a listing of which some parts failed; they have
// been reported.
var errIncomplete = errors.New("the list is incomplete")
