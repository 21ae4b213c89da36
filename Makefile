# CSI Proxy. `make help` lists the targets.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# grpcnotrace leaves out x/net/trace, which nothing serves, and with it html/template.
# nethttpomithttp2 leaves out HTTP/2 in net/http: metrics are served without TLS, so by
# HTTP/1.1, and gRPC has its own.
TAGS    := grpcnotrace,nethttpomithttp2
BUILD    = CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)'

STAGES  := test check wine gcepd apiserver cluster fuzz kill soak generate generate-api

.DEFAULT_GOAL := help

# Programs that make runs are for this machine, also in `GOOS=windows make build`.
unexport GOOS GOARCH

.PHONY: help demo $(STAGES) bench build build-host build-windows build-windows-amd64 build-windows-arm64 release lab cluster-command tidy clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z][a-zA-Z_-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build-host ## drive a volume through its life on a simulated node, and print each call
	@hack/demo.sh

# The stages are in hack/stages.
$(STAGES):
	@CGO_ENABLED=0 $(GO) run -trimpath ./hack/stages $@

test: ## everything that can run on this machine, as in CI; installs what it needs
check: ## the quick loop: format, vet, generated files, and the tests that are quick
wine: ## of make test, the part that runs the Windows build under Wine
gcepd: ## of make test, the part that runs the unmodified driver of GCE PD under Wine
apiserver: ## a real kube-apiserver accepts the chart and the manifests, and the policies refuse; builds it once, in minutes
cluster: ## Kubernetes with kubelets for Linux drives the example driver on simulated Windows nodes; builds it once, in minutes
fuzz: ## of make test, the part that runs each fuzz target for a second
kill: ## of make test, the part that kills the daemon 100 times during calls
soak: ## long runs: 5,000 kills, 20,000 volumes of the example driver, all tests of nodes in each world, 2,500 disk images, 60,000 runs of the seeded simulation, ten minutes of flood under the race detector, five of each fuzz target
generate: ## write all generated files: code, the overview of the API, manifests
generate-api: ## of make generate, the part that depends only on the .proto files

bench: ## the daemon beside bare gRPC, on sockets and, where there is a Wine, on named pipes
	$(GO) -C cmd test ./internal/daemon -run '^$$' -bench PathExists -count 7
	GOOS=windows GOARCH=amd64 $(GO) -C cmd test -c -o ../bin/windows-amd64/bench.exe ./internal/daemon
	@if hack/wine.sh built; then CSI_PROXY_WINE_LIMIT=1800 hack/wine.sh exec bin/windows-amd64/bench.exe -test.run '^$$' -test.bench PathExists -test.count 7; else echo 'make wine makes the Wine in which the named pipes are measured'; fi

build: build-host build-windows ## all binaries, for this machine and for Windows, into bin/; bin/csi-proxy.exe is where installers look for it
	cp bin/windows-amd64/csi-proxy.exe bin/csi-proxy.exe

build-host: ## bin/csi-proxy-sim, bin/csi-proxyctl, bin/csi-proxy and bin/csi-proxy-verify for this machine
	$(BUILD) -o bin/ ./cmd/csi-proxy ./cmd/csi-proxy-sim ./cmd/csi-proxyctl ./cmd/csi-proxy-verify

build-windows: build-windows-amd64 build-windows-arm64 ## bin/windows-amd64/*.exe and bin/windows-arm64/*.exe

build-windows-amd64 build-windows-arm64: build-windows-%:
	GOOS=windows GOARCH=$* $(BUILD) -o bin/windows-$*/ ./cmd/csi-proxy ./cmd/csi-proxy-sim ./cmd/csi-proxyctl ./cmd/csi-proxy-verify
	$(GO) run ./hack/stamp -version '$(VERSION)' bin/windows-$*/csi-proxy.exe bin/windows-$*/csi-proxy-sim.exe bin/windows-$*/csi-proxyctl.exe bin/windows-$*/csi-proxy-verify.exe

release: build-windows ## dist/: zips, image, chart, bills of materials, licenses, checksums; BASE=LAYOUT completes the image, KEY=FILE signs with minisign
	cd hack/release && GOWORK=off $(GO) run . -version '$(VERSION)' -time '$(shell git log -1 --format=%ct)' -bin '$(CURDIR)/bin' -source '$(CURDIR)' -out '$(CURDIR)/dist' -base '$(if $(BASE),$(abspath $(BASE)))' -key '$(if $(KEY),$(abspath $(KEY)))'

lab: ## bin/csi-proxy-lab, which runs Windows drivers on this machine
	$(BUILD) -o bin/ ./lab/csi-proxy-lab
	GOOS=windows GOARCH=amd64 $(BUILD) -o bin/ ./lab/relay/csi-proxy-relay

cluster-command: ## bin/csi-proxy-cluster, which runs such a cluster on this machine, and bin/csi-proxyctl
	GOWORK= $(BUILD) -o bin/ ./cmd/csi-proxyctl
	cd test/cluster && GOWORK=off CGO_ENABLED=0 $(GO) build -trimpath -o ../../bin/ ./csi-proxy-cluster

tidy: ## go mod tidy in every module
	@for m in $$(git ls-files '*go.mod' | xargs dirname); do echo "tidy $$m"; GOWORK=off $(GO) -C $$m mod tidy || exit 1; done
	@cd examples/csi-driver && GOWORK=off $(GO) mod tidy -modfile=csi-1.13.mod

clean: ## remove bin/ and dist/
	rm -rf bin dist
