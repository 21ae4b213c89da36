package apis

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// checker collects the problems of one file.
type checker struct {
	src      *source
	problems []error
}

// check returns an error for anything that the generators do not support. It lists
// all problems in the file.
func check(src *source, f protoreflect.FileDescriptor) error {
	c := &checker{src: src}
	c.file(f)
	for i := range f.Services().Len() {
		c.service(f.Services().Get(i))
	}
	for i := range f.Messages().Len() {
		c.message(f.Messages().Get(i))
	}
	for i := range f.Enums().Len() {
		c.enum(f.Enums().Get(i))
	}
	return errors.Join(c.problems...)
}

// fail records a problem with d, at its line in the source.
func (c *checker) fail(d protoreflect.Descriptor, format string, args ...any) {
	line := 1
	if _, ok := d.(protoreflect.FileDescriptor); !ok {
		line = d.ParentFile().SourceLocations().ByDescriptor(d).StartLine + 1
	}
	c.problems = append(c.problems, fmt.Errorf("%s:%d: %s: %s", c.src.path, line, d.FullName(), fmt.Sprintf(format, args...)))
}

// noOptions records a problem if d has options.
func (c *checker) noOptions(d protoreflect.Descriptor) {
	if proto.Size(d.Options()) != 0 {
		c.fail(d, "options {%v} are not supported", d.Options())
	}
}

func (c *checker) file(f protoreflect.FileDescriptor) {
	if f.Syntax() != protoreflect.Proto3 {
		c.fail(f, "syntax %v: want proto3", f.Syntax())
	}
	if n := f.Imports().Len(); n != 0 {
		c.fail(f, "imports %q: imports are not supported", f.Imports().Get(0).Path())
	}
	if n := f.Extensions().Len(); n != 0 {
		c.fail(f, "declares extension %s", f.Extensions().Get(0).FullName())
	}

	opts, _ := f.Options().(*descriptorpb.FileOptions)
	goPackage := opts.GetGoPackage()
	switch {
	case c.src.noGoPackage && goPackage != "":
		c.fail(f, "has go_package %q and a no-go-package directive", goPackage)
	case !c.src.noGoPackage && goPackage == "":
		c.fail(f, "has no go_package; want %q", c.src.importPath)
	case goPackage != "" && goPackage != c.src.importPath:
		c.fail(f, "go_package %q: want %q", goPackage, c.src.importPath)
	}
	rest := &descriptorpb.FileOptions{}
	if opts != nil {
		rest = proto.CloneOf(opts)
	}
	rest.GoPackage = nil
	if proto.Size(rest) != 0 {
		c.fail(f, "options {%v} are not supported", rest)
	}
}

func (c *checker) service(s protoreflect.ServiceDescriptor) {
	c.noOptions(s)
	if Comment(s) == "" {
		c.fail(s, "has no comment")
	}
	if s.Methods().Len() == 0 {
		c.fail(s, "has no methods")
	}
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		c.noOptions(m)
		if m.IsStreamingClient() || m.IsStreamingServer() {
			c.fail(m, "is a stream: want a unary method")
		}
		if Comment(m) == "" {
			c.fail(m, "has no comment")
		}
	}
}

func (c *checker) message(m protoreflect.MessageDescriptor) {
	c.noOptions(m)
	for i := range m.Messages().Len() {
		if nested := m.Messages().Get(i); !nested.IsMapEntry() {
			c.fail(nested, "is a nested message")
		}
	}
	if m.Enums().Len() != 0 {
		c.fail(m.Enums().Get(0), "is a nested enum")
	}
	if m.Extensions().Len() != 0 {
		c.fail(m.Extensions().Get(0), "is an extension")
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		c.noOptions(f)
		switch {
		case f.HasOptionalKeyword():
			c.fail(f, "is optional: field presence is not supported")
		case f.ContainingOneof() != nil:
			c.fail(f, "is part of oneof %q", f.ContainingOneof().Name())
		}
	}
}

func (c *checker) enum(e protoreflect.EnumDescriptor) {
	c.noOptions(e)
	for i := range e.Values().Len() {
		c.noOptions(e.Values().Get(i))
	}
}
