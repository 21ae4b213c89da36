package remote_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

// recorder implements the services of every group. It stores the request and returns the
// response or the error that set has given it.
type recorder struct {
	mu     sync.Mutex
	method string
	got    any                         // the request
	fill   func(resp any)              // fills the response
	err    error                       // is returned instead of a response
	wait   func(context.Context) error // runs before the response
}

func (r *recorder) groups() wire.Groups { return wiretest.Groups(r.answer) }

// set sets what the recorder returns, and resets the stored request.
func (r *recorder) set(fill func(resp any), err error, wait func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.method, r.got, r.fill, r.err, r.wait = "", nil, fill, err, wait
}

func (r *recorder) last() (method string, got any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.method, r.got
}

// answer implements a method of a service.
func (r *recorder) answer(ctx context.Context, method string, in, out any) error {
	r.mu.Lock()
	r.method, r.got = method, in
	fill, err, wait := r.fill, r.err, r.wait
	r.mu.Unlock()
	if wait != nil {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	if err == nil && fill != nil {
		fill(out)
	}
	return err
}

// filler fills Go structs with a different value in each field.
type filler struct {
	n     uint64
	bools int  // number of bools
	only  int  // index of the one that is true
	most  bool // numbers are the largest of their type
}

// fill fills the struct that p points to, and returns the number of bools. Only the bool with
// the given index is true.
func fill(p any, trueBool int, most bool) (bools int) {
	f := &filler{n: 16, only: trueBool, most: most}
	f.value(reflect.ValueOf(p).Elem())
	return f.bools
}

func (f *filler) value(x reflect.Value) {
	f.n++
	switch x.Kind() {
	case reflect.Struct:
		for i := range x.NumField() {
			f.value(x.Field(i))
		}
	case reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		f.value(x.Elem())
	case reflect.Slice:
		x.Set(reflect.MakeSlice(x.Type(), 2, 2))
		f.value(x.Index(0))
		f.value(x.Index(1))
	case reflect.Map:
		x.Set(reflect.MakeMap(x.Type()))
		for range 2 {
			key, value := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
			x.SetMapIndex(f.filled(key), f.filled(value))
			f.most = false // keys differ
		}
	case reflect.Bool:
		x.SetBool(f.bools == f.only)
		f.bools++
	case reflect.String:
		x.SetString(fmt.Sprintf(`text %d "ÄÖ\`+"\n", f.n))
	case reflect.Uint32:
		n := f.n
		if f.most {
			n = 1<<32 - 1
		}
		x.SetUint(n)
	case reflect.Uint64:
		n := f.n << 32
		if f.most {
			n = 1<<64 - 1
		}
		x.SetUint(n)
	case reflect.Int64:
		n := int64(f.n) << 32
		if f.most {
			n = -1 << 63
		}
		x.SetInt(n)
	default:
		panic("teach this test " + x.Type().String())
	}
}

func (f *filler) filled(x reflect.Value) reflect.Value { f.value(x); return x }
