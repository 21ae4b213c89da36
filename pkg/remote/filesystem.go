package remote

import (
	"context"
	"errors"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/filesystem"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// PathValid answers an error that is an [errors.ErrUnsupported]: no version of
// the API has a method for it. [Filesystem.PathExists] is what comes nearest;
// it does not follow links. As in process, the answer beside the error is "not
// valid" and not nil.
func (c *Filesystem) PathValid(_ context.Context, in *filesystem.PathValidRequest) (*filesystem.PathValidResponse, error) {
	none := &filesystem.PathValidResponse{}
	if in == nil {
		return none, noRequest("PathValid")
	}
	return none, &Error{
		Hint:   "ask PathExists, or run the driver as a HostProcess container",
		text:   "PathValid cannot be asked through a pipe: no version of the filesystem API has this method",
		causes: []error{hosterr.ErrUnimplemented, errors.ErrUnsupported},
	}
}
