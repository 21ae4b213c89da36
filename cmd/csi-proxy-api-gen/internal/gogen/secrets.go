package gogen

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/format"
	"path"
	"regexp"
	"slices"
	"text/template"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// secretName matches the names of fields that must not be visible when their message is printed.
//
// The field remains an ordinary string, because published programs use it and the
// descriptors are published. The message gets methods that print stars instead of the
// secret.
var secretName = regexp.MustCompile(`(?i)password|secret`)

//go:embed secrets.go.tmpl
var secretsText string

var secretsTemplate = template.Must(template.New("secrets").Option("missingkey=error").Parse(secretsText))

// secretMessage is the template's input for a message, as Go identifiers.
type secretMessage struct {
	Name    string
	Secrets []string
	Parts   []string // fields that are messages
}

// secretMessages returns the messages of a file that contain secrets. It refuses what the
// generated methods cannot hide.
func secretMessages(file *protogen.File) (found []secretMessage, err error) {
	holds := map[*protogen.Message]bool{}
	for _, m := range file.Messages {
		msg := secretMessage{Name: m.GoIdent.GoName}
		for _, f := range m.Fields {
			switch {
			case isText(f.Desc) && secretName.MatchString(string(f.Desc.Name())):
				if f.Desc.Kind() != protoreflect.StringKind || f.Desc.IsList() {
					return nil, fmt.Errorf("field %s of %s has the name of a secret: want a single string; other types cannot be hidden", f.Desc.Name(), msg.Name)
				}
				msg.Secrets = append(msg.Secrets, f.GoName)
			case f.Message != nil:
				msg.Parts = append(msg.Parts, f.GoName)
			}
		}
		if len(msg.Secrets) > 0 {
			holds[m] = true
			found = append(found, msg)
		}
	}
	for _, m := range file.Messages {
		for _, f := range m.Fields {
			part := f.Message
			if f.Desc.IsMap() {
				part = f.Message.Fields[1].Message
			}
			switch {
			case part == nil:
			case holds[part]: // its methods are not called then
				err = fmt.Errorf("%s contains a secret, so it must not be part of another message", part.Desc.Name())
			case holds[m] && (f.Desc.IsMap() || f.Desc.IsList()):
				err = fmt.Errorf("a message with a secret must not contain lists or maps of messages")
			case holds[m] && slices.ContainsFunc(part.Fields, func(f *protogen.Field) bool { return f.Message != nil }):
				err = fmt.Errorf("a message with a secret must not contain more than one level of messages")
			}
			if err != nil {
				return nil, fmt.Errorf("field %s of %s: %w", f.Desc.Name(), m.Desc.Name(), err)
			}
		}
	}
	return found, nil
}

// isText reports whether a field contains one or more strings or bytes.
func isText(f protoreflect.FieldDescriptor) bool {
	if f.IsMap() {
		f = f.MapValue()
	}
	return f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
}

// hideSecrets adds <Dir>/<group>/<version>/api_secrets.go for versions with secrets, and
// changes the String methods of their messages to use it.
func hideSecrets(set *apis.Set, plugin *protogen.Plugin, files map[string][]byte) error {
	for _, v := range set.Versions() {
		messages, err := secretMessages(plugin.FilesByPath[v.Desc.Path()])
		if err != nil {
			return fmt.Errorf("%s: %w", v.Path, err)
		}
		if len(messages) == 0 {
			continue
		}
		name := path.Join(Dir, v.Dir(), "api.pb.go")
		for _, m := range messages {
			if files[name], err = replaceString(files[name], m.Name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		var b bytes.Buffer
		if err := secretsTemplate.Execute(&b, struct {
			Package  string
			Messages []secretMessage
		}{v.Name, messages}); err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
		if files[path.Join(Dir, v.Dir(), "api_secrets.go")], err = format.Source(b.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
	}
	return nil
}

// replaceString changes the String method of a message to omit its secrets. The protobuf
// module does not call this method: it encodes text, JSON and the wire format from the
// fields.
func replaceString(text []byte, message string) ([]byte, error) {
	method := func(arg string) []byte {
		return fmt.Appendf(nil, "\nfunc (x *%s) String() string {\n\treturn protoimpl.X.MessageStringOf(%s)\n}\n", message, arg)
	}
	from, to := method("x"), method("x.withoutSecrets()")
	if n := bytes.Count(text, from); n != 1 {
		return nil, fmt.Errorf("found %q %d times, want once", bytes.TrimSpace(from), n)
	}
	return bytes.Replace(text, from, to, 1), nil
}
