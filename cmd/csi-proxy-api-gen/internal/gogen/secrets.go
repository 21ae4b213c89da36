package gogen

import (
	"bytes"
	_ "embed"
	"errors"
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

// A Secret is a field that must not be visible when its message is printed.
//
// The field remains an ordinary string, because published programs use it and the
// descriptors are published. The message gets methods that print stars instead of the
// secret.
type Secret struct {
	Group    string
	Versions []string
	Message  string // as in the .proto file
	Field    string // as in the .proto file
}

// PublishedSecrets returns the secrets of the published API.
func PublishedSecrets() []Secret {
	return []Secret{
		{"iscsi", []string{"v1alpha1", "v1alpha2"}, "ConnectTargetRequest", "chap_secret"},
		{"iscsi", []string{"v1alpha2"}, "SetMutualChapSecretRequest", "MutualChapSecret"},
		{"smb", []string{"v1alpha1", "v1beta1", "v1beta2", "v1", "v2alpha1"}, "NewSmbGlobalMappingRequest", "password"},
		{"smb", []string{"v2alpha1"}, "UpdateSmbGlobalMappingRequest", "password"},
	}
}

// secretName matches the names of fields that must be in the table.
var secretName = regexp.MustCompile(`(?i)password|secret`)

// secretFields returns the fields of the table. Its error lists all problems: entries
// whose field does not exist or cannot be hidden, and fields that have the name of a
// secret but no entry.
func secretFields(set *apis.Set, table []Secret) (map[protoreflect.FieldDescriptor]bool, error) {
	fields := map[protoreflect.FieldDescriptor]bool{}
	var problems []error
	for _, s := range table {
		if len(s.Versions) == 0 {
			problems = append(problems, fmt.Errorf("secret %s of %s in group %s: no versions", s.Field, s.Message, s.Group))
		}
		for _, version := range s.Versions {
			f, err := s.find(set, version)
			if err == nil && fields[f] {
				err = errors.New("listed twice")
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("secret %s of %s in %s/%s: %w", s.Field, s.Message, s.Group, version, err))
				continue
			}
			fields[f] = true
		}
	}
	holds := map[protoreflect.MessageDescriptor]bool{}
	for f := range fields {
		holds[f.ContainingMessage()] = true
	}
	for _, file := range set.Files() {
		for m := range all(file.Desc.Messages()) {
			for f := range all(m.Fields()) {
				if isText(f) && secretName.MatchString(string(f.Name())) && !fields[f] {
					problems = append(problems, fmt.Errorf("%s: field %s of %s has the name of a secret: add it to PublishedSecrets", file.Path, f.Name(), m.Name()))
				}
				if err := printable(f, holds); err != nil {
					problems = append(problems, fmt.Errorf("%s: field %s of %s: %w", file.Path, f.Name(), m.Name(), err))
				}
			}
		}
	}
	return fields, errors.Join(problems...)
}

// find returns the field in one of the versions.
func (s Secret) find(set *apis.Set, version string) (protoreflect.FieldDescriptor, error) {
	i := slices.IndexFunc(set.Versions(), func(v *apis.Version) bool { return v.Group.Name == s.Group && v.Name == version })
	if i < 0 {
		return nil, errors.New("no such version")
	}
	m := set.Versions()[i].Desc.Messages().ByName(protoreflect.Name(s.Message))
	if m == nil {
		return nil, errors.New("no such message")
	}
	f := m.Fields().ByName(protoreflect.Name(s.Field))
	switch {
	case f == nil:
		return nil, errors.New("no such field")
	case f.Kind() != protoreflect.StringKind || f.IsList():
		return nil, errors.New("want a single string; other types cannot be hidden")
	}
	return f, nil
}

// isText reports whether a field contains one or more strings or bytes.
func isText(f protoreflect.FieldDescriptor) bool {
	if f.IsMap() {
		f = f.MapValue()
	}
	return f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
}

// printable returns an error if the generated methods cannot hide a secret. They are
// not called when the message is printed as part of another message, and they handle
// only one level of messages inside their message.
func printable(f protoreflect.FieldDescriptor, holds map[protoreflect.MessageDescriptor]bool) error {
	of := f
	if f.IsMap() {
		of = f.MapValue()
	}
	if of.Message() == nil {
		return nil
	}
	if holds[of.Message()] {
		return fmt.Errorf("%s contains a secret, so it must not be part of another message", of.Message().Name())
	}
	if !holds[f.ContainingMessage()] {
		return nil
	}
	if f.IsMap() || f.IsList() {
		return errors.New("a message with a secret must not contain lists or maps of messages")
	}
	for g := range all(of.Message().Fields()) {
		if g.Message() != nil {
			return errors.New("a message with a secret must not contain more than one level of messages")
		}
	}
	return nil
}

// all returns an iterator over a list of descriptors.
func all[D any](list interface {
	Len() int
	Get(int) D
}) func(func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

//go:embed secrets.go.tmpl
var secretsText string

var secretsTemplate = template.Must(template.New("secrets").Option("missingkey=error").Parse(secretsText))

// secretMessage is the template's input for a message, as Go identifiers.
type secretMessage struct {
	Name    string
	Secrets []string
	Parts   []string // fields that are messages
}

// hideSecrets adds <Dir>/<group>/<version>/api_secrets.go for versions with secrets, and
// changes the String methods of their messages to use it.
func hideSecrets(set *apis.Set, plugin *protogen.Plugin, table []Secret, files map[string][]byte) error {
	secrets, err := secretFields(set, table)
	if err != nil {
		return err
	}
	// The plugin has its own descriptors with the same names.
	isSecret := map[string]bool{}
	key := func(f protoreflect.FieldDescriptor) string { return f.ParentFile().Path() + ":" + string(f.FullName()) }
	for f := range secrets {
		isSecret[key(f)] = true
	}
	for _, v := range set.Versions() {
		var messages []secretMessage
		for _, m := range plugin.FilesByPath[v.Desc.Path()].Messages {
			msg := secretMessage{Name: m.GoIdent.GoName}
			for _, f := range m.Fields {
				switch {
				case isSecret[key(f.Desc)]:
					msg.Secrets = append(msg.Secrets, f.GoName)
				case f.Message != nil:
					msg.Parts = append(msg.Parts, f.GoName)
				}
			}
			if len(msg.Secrets) > 0 {
				messages = append(messages, msg)
			}
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
