package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// call is a backend that always returns the same error, and counts its calls.
type call struct {
	mu    sync.Mutex
	n     int
	error error
}

func (c *call) do() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.error
}

func TestChoice(t *testing.T) {
	missing := fmt.Errorf("no class X: %w", backend.ErrUnavailable)
	for _, c := range []struct {
		name        string
		prefer      backend.Name
		wmi, native error
		want        error
		calls       [2]int // of wmi and native, after three calls
		logged      int
	}{
		{"the preferred backend is available", backend.WMI, nil, nil, nil, [2]int{3, 0}, 0},
		{"the other preferred backend is available", backend.Native, nil, nil, nil, [2]int{0, 3}, 0},
		{"another error does not switch", backend.WMI, win32.ERROR_ACCESS_DENIED, nil, win32.ERROR_ACCESS_DENIED, [2]int{3, 0}, 0},
		{"a similar error does not switch", backend.WMI, win32.ERROR_NOT_SUPPORTED, nil, win32.ERROR_NOT_SUPPORTED, [2]int{3, 0}, 0},
		{"the preferred backend is missing", backend.WMI, missing, nil, nil, [2]int{1, 3}, 1},
		{"the preferred backend is missing, native", backend.Native, nil, missing, nil, [2]int{3, 1}, 1},
		{"the second fails", backend.WMI, missing, win32.ERROR_BUSY, win32.ERROR_BUSY, [2]int{1, 3}, 1},
		{"both are missing", backend.WMI, missing, missing, backend.ErrUnavailable, [2]int{1, 3}, 1},
	} {
		var log bytes.Buffer
		wmi, native := &call{error: c.wmi}, &call{error: c.native}
		choice := backend.Choose("tests", slog.New(slog.NewTextHandler(&log, nil)), c.prefer,
			backend.Option[*call]{Name: backend.WMI, Use: wmi}, backend.Option[*call]{Name: backend.Native, Use: native})
		var err error
		for range 3 {
			err = choice.Do((*call).do)
		}
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got := [2]int{wmi.n, native.n}; got != c.calls {
			t.Errorf("%s: %v calls, want %v", c.name, got, c.calls)
		}
		if got := strings.Count(log.String(), "no class X"); got != c.logged {
			t.Errorf("%s: logged %d times, want %d:\n%s", c.name, got, c.logged, &log)
		}
		if errors.Is(err, backend.ErrUnavailable) && (!strings.Contains(err.Error(), "wmi") || !strings.Contains(err.Error(), "native") || !win32.IsCode(err, win32.ERROR_NOT_SUPPORTED)) {
			t.Errorf("%s: %v does not name both backends, or has no number", c.name, err)
		}
	}
}

// Of many calls that find the preferred backend missing at once, only one logs
// it.
func TestChoiceConcurrent(t *testing.T) {
	var log bytes.Buffer
	missing, there := &call{error: backend.ErrUnavailable}, &call{}
	choice := backend.Choose("tests", slog.New(slog.NewTextHandler(&log, nil)), backend.WMI,
		backend.Option[*call]{Name: backend.WMI, Use: missing}, backend.Option[*call]{Name: backend.Native, Use: there})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := choice.Do((*call).do); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := strings.Count(log.String(), "\n"); got != 1 || there.n != 20 {
		t.Errorf("%d lines in the log, %d calls of the second choice; want 1 and 20", got, there.n)
	}
}

func TestParse(t *testing.T) {
	for s, ok := range map[string]bool{"wmi": true, "native": true, "": false, "WMI": false, "powershell": false} {
		n, err := backend.Parse(s)
		if (err == nil) != ok || ok && string(n) != s || err != nil && !strings.Contains(err.Error(), "want wmi or native") {
			t.Errorf("Parse(%q) = %q, %v, want success: %t", s, n, err, ok)
		}
	}
}
