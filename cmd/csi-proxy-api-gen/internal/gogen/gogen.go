// Package gogen generates Go packages from .proto files: messages and enums with the
// generator of google.golang.org/protobuf, gRPC clients and servers with
// protoc-gen-go-grpc (both in the versions required by go.mod), methods that omit
// secrets when a message is printed, and package comments.
//
// It does not use protoc, so the output does not depend on installed programs other
// than Go.
package gogen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// Dir is the directory of the output, relative to the root of the repository.
const Dir = "client/api"

// Messages generates <Dir>/<group>/<version>/api.pb.go for all versions, the same for
// shared files, and api_secrets.go for versions with messages that contain secrets.
func Messages(set *apis.Set) (map[string][]byte, error) {
	plugin, files, err := messages(set.Request(), apis.ImportPath, Dir)
	if err != nil {
		return nil, err
	}
	return files, hideSecrets(set, plugin, files)
}

// GRPC generates <Dir>/<group>/<version>/api_grpc.pb.go. moduleDir is in the module of
// this generator.
func GRPC(ctx context.Context, set *apis.Set, moduleDir string) (map[string][]byte, error) {
	// Published servers do not embed Unimplemented<Service>Server, so the generated
	// interfaces must not require it.
	files, err := protocGenGoGRPC(ctx, set.Request("require_unimplemented_servers=false"), apis.ImportPath, Dir, moduleDir)
	if err != nil {
		return nil, err
	}
	return files, keepSignatures(set, files)
}

// Internal generates the messages and gRPC code of a service that is not part of the API, in the
// directory of its .proto file, dir below root.
func Internal(ctx context.Context, root, dir string) (map[string][]byte, error) {
	protos, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.proto"))
	if err != nil || len(protos) != 1 {
		return nil, fmt.Errorf("%s has %d .proto files, want one", dir, len(protos))
	}
	name := filepath.Base(protos[0])
	c := protocompile.Compiler{
		SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(protos[0])}},
	}
	compiled, err := c.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	// The name must be unique among the .proto files of a program, and that of the file
	// alone might not be.
	file := proto.CloneOf(protoutil.ProtoFromFileDescriptor(compiled[0]))
	file.Name = proto.String(path.Join(strings.ReplaceAll(file.GetPackage(), ".", "/"), name))
	importPath := file.GetOptions().GetGoPackage()
	req := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file.GetName()}, ProtoFile: []*descriptorpb.FileDescriptorProto{file}}
	_, files, err := messages(req, importPath, dir)
	if err != nil {
		return nil, err
	}
	grpc, err := protocGenGoGRPC(ctx, req, importPath, dir, filepath.Join(root, "cmd"))
	maps.Copy(files, grpc)
	return files, err
}

// messages runs the generator of messages. importPath is that of the output's directory dir.
func messages(req *pluginpb.CodeGeneratorRequest, importPath, dir string) (*protogen.Plugin, map[string][]byte, error) {
	plugin, err := protogen.Options{}.New(req)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range plugin.Files {
		gengo.GenerateFile(plugin, f)
	}
	plugin.SupportedFeatures = gengo.SupportedFeatures
	files, err := collect(importPath, dir, plugin.Response())
	return plugin, files, err
}

// protocGenGoGRPC runs protoc-gen-go-grpc as a tool of the module that contains moduleDir.
func protocGenGoGRPC(ctx context.Context, req *pluginpb.CodeGeneratorRequest, importPath, dir, moduleDir string) (map[string][]byte, error) {
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go-grpc")
	cmd.Dir = moduleDir
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return nil, fmt.Errorf("output of protoc-gen-go-grpc: %w", err)
	}
	return collect(importPath, dir, &resp)
}

// keepSignatures restores the published parameter types of functions. The current
// generator uses interfaces, and a program that assigns such a function to a variable
// would no longer compile. Register<Service>Server takes a *grpc.Server in all
// versions, and New<Service>Client a *grpc.ClientConn in versions with the
// client-takes directive.
func keepSignatures(set *apis.Set, files map[string][]byte) error {
	for _, v := range set.Versions() {
		name := path.Join(Dir, v.Dir(), "api_grpc.pb.go")
		narrow := func(format, from, to string) error {
			line := func(arg string) []byte { return fmt.Appendf(nil, format, v.Group.Service, arg) }
			if n := bytes.Count(files[name], line(from)); n != 1 {
				return fmt.Errorf("%s: found %q %d times, want once", name, bytes.TrimSpace(line(from)), n)
			}
			files[name] = bytes.Replace(files[name], line(from), line(to), 1)
			return nil
		}
		err := narrow("\nfunc Register%[1]sServer(s %[2]s, srv %[1]sServer) {\n", "grpc.ServiceRegistrar", "*grpc.Server")
		if err == nil && v.ClientTakesConn {
			err = narrow("\nfunc New%[1]sClient(cc %[2]s) %[1]sClient {\n", "grpc.ClientConnInterface", "*grpc.ClientConn")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Docs generates the package comments, <Dir>/<group>/<version>/doc.go and
// <Dir>/doc.go.
func Docs(set *apis.Set) (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(dir, pkg, first, doc string) {
		var b bytes.Buffer
		b.WriteString("// Code generated by csi-proxy-api-gen. DO NOT EDIT.\n\n")
		for line := range strings.Lines(first + "\n\n" + doc) {
			b.WriteString(strings.TrimRight("// "+line, " \n") + "\n")
		}
		fmt.Fprintf(&b, "package %s\n", pkg)
		files[path.Join(Dir, dir, "doc.go")] = b.Bytes()
	}
	for _, v := range set.Versions() {
		add(v.Dir(), v.Name, fmt.Sprintf("Package %s is version %s of the %s API.", v.Name, v.Name, v.Group.Name), v.Doc)
	}
	for _, f := range set.Shared {
		pkg := path.Base(f.ImportPath)
		add(".", pkg, fmt.Sprintf("Package %s contains the published API, with a directory for each group and version.", pkg), f.Doc)
	}
	return files, nil
}

// collect returns the files in a plugin's response, whose names begin with importPath, below dir.
func collect(importPath, dir string, resp *pluginpb.CodeGeneratorResponse) (map[string][]byte, error) {
	if resp.GetError() != "" {
		return nil, errors.New(resp.GetError())
	}
	files := map[string][]byte{}
	for _, f := range resp.GetFile() {
		files[path.Join(dir, strings.TrimPrefix(f.GetName(), importPath))] = []byte(f.GetContent())
	}
	return files, nil
}
