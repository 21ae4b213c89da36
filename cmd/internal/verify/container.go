package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const containerSection = "containers"

// containerCommands are the modes of the program for what needs a container: one on the machine,
// and those that run in containers and tell it what they see. Each ends by itself.
var containerCommands = map[string]func(ctx context.Context, version string, args []string, stdout io.Writer) error{
	"container-host": containerHost, // listens as csi-proxy does, restarts once, and writes the report
	"container":      container,     // connects, and again after the restart
	"container-stop": containerStop, // notes when it hears of a stop, and until when it lives
}

// containerTime is how long the first two wait, unless their argument says otherwise.
const containerTime = 10 * time.Minute

func waitArgument(args []string) (time.Duration, error) {
	switch len(args) {
	case 0:
		return containerTime, nil
	case 1:
		d, err := time.ParseDuration(args[0])
		if err == nil && (d <= 0 || d > time.Hour) {
			err = errors.New("want at most 1h")
		}
		if err != nil {
			return 0, fmt.Errorf("time %q: %w", args[0], err)
		}
		return d, nil
	}
	return 0, fmt.Errorf("unexpected argument %q", args[1])
}

// The names of the questions that need a container, as the reports have them.
const (
	askedAdministrator = "an administrator in a container"
	askedUser          = "a user in a container"
	askedRestart       = "a container over a restart"
	askedProcess       = "process of a container"
	askedStop          = "stop of a HostProcess container"
	askedShutdown      = "node that shuts down"
)

// containerQuestions are asked by the modes above, or by a person.
func containerQuestions() []question {
	return []question{
		{
			name: askedAdministrator, contract: "pipes.md#rights",
			asks:   "Does a pipe with csi-proxy's rights let ContainerAdministrator in, of a process-isolated container of Server Core and of Nano Server?",
			does:   "container-host listens, container connects",
			expect: []string{"connected, owner trusted"}, change: "the default of `-pipe-sddl`",
		},
		{
			name: askedUser, contract: "pipes.md#rights",
			asks:   "And ContainerUser?",
			does:   "the same, as that user",
			expect: []string{"denied"}, change: "the default of `-pipe-sddl`",
		},
		{
			name: askedRestart, contract: "pipes.md#named-pipes",
			asks:   "Does a container reach a pipe that was made after the container started, or made again since?",
			does:   "start container first, then container-host, which makes its pipe again once",
			expect: []string{"reached after the start, and again after the restart"}, change: "the documents say that drivers are restarted after csi-proxy",
		},
		{
			name: askedProcess, contract: "pipes.md#named-pipes",
			asks:   "Which process, session and program does Windows name for a client in a container, with both forms of the path?",
			does:   "container-host asks Windows about each client",
			expect: []string{"its own process, session 0 or its own, a program in the native form"}, change: "the limits that are shared among processes, and what the audit log has as the program",
		},
		{
			name: askedStop, contract: "pipes.md#the-windows-service",
			asks:   "For how long does a HostProcess container live after its pod was deleted?",
			does:   "container-stop notes the time of the signal and of its end",
			expect: []string{"5 s without a signal on Server 2022 and 2025, 75 s with one on 2019"}, change: "whether the preStop command is needed",
		},
		{
			name: askedShutdown, contract: "pipes.md#the-windows-service",
			asks:   "Do NodeUnpublish calls arrive while a node with shutdownGracePeriod shuts down?",
			does:   "the log of csi-proxy, after shutdown /r with a pod that has a volume",
			expect: []string{"UnmountVolume after the notice"}, change: "install.md says how to order the two services, or csi-proxy waits for the kubelet",
		},
	}
}
