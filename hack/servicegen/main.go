// Command servicegen writes the Go code of an internal service, such as the control
// service of the simulated node, from its .proto file, with the generators that are pinned
// in this module's go.mod.
//
//	go run ./hack/servicegen -dir internal/simcontrol
//
// csi-proxy-api-gen cannot do it, because it accepts only files of the published API.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) }

// run is the command: 0 is success, 1 failure or (with -check) a difference,
// 2 wrong usage.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("servicegen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "internal/simcontrol", "`directory` of the .proto file, where the output goes")
	check := flags.Bool("check", false, "write nothing; fail if a file is out of date")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	files, err := generate(ctx, *dir)
	if err == nil {
		err = syncFiles(*dir, files, *check)
	}
	if err != nil {
		fmt.Fprintf(stderr, "servicegen: %v\n", err)
		return 1
	}
	return 0
}

// generate returns the generated files by name.
func generate(ctx context.Context, dir string) (map[string][]byte, error) {
	c := protocompile.Compiler{
		SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{dir}},
	}
	protos, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return nil, err
	}
	if len(protos) != 1 {
		return nil, fmt.Errorf("%s has %d .proto files, want one", dir, len(protos))
	}
	name := filepath.Base(protos[0])
	compiled, err := c.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	// The name must be unique among the .proto files of a program, and that of the file
	// alone might not be.
	file := proto.CloneOf(protoutil.ProtoFromFileDescriptor(compiled[0]))
	file.Name = proto.String(path.Join(strings.ReplaceAll(file.GetPackage(), ".", "/"), name))
	req := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file.GetName()},
		ProtoFile:      []*descriptorpb.FileDescriptorProto{file},
		// The part of the import path that the names of the files leave out.
		Parameter: proto.String("module=" + file.GetOptions().GetGoPackage()),
	}

	plugin, err := protogen.Options{}.New(req)
	if err != nil {
		return nil, err
	}
	for _, f := range plugin.Files {
		gengo.GenerateFile(plugin, f)
	}
	plugin.SupportedFeatures = gengo.SupportedFeatures
	grpcResponse, err := protocGenGoGRPC(ctx, req)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, resp := range []*pluginpb.CodeGeneratorResponse{plugin.Response(), grpcResponse} {
		if resp.GetError() != "" {
			return nil, errors.New(resp.GetError())
		}
		for _, f := range resp.GetFile() {
			files[f.GetName()] = []byte(f.GetContent())
		}
	}
	if len(files) != 2 {
		return nil, fmt.Errorf("generators wrote %d files, want messages and gRPC code", len(files))
	}
	return files, nil
}

func protocGenGoGRPC(ctx context.Context, req *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go-grpc")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go-grpc: %w\n%s", err, stderr.Bytes())
	}
	resp := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, resp); err != nil {
		return nil, fmt.Errorf("output of protoc-gen-go-grpc: %w", err)
	}
	return resp, nil
}
