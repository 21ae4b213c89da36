// Package shelf is the package behind the shelf API of the generator's tests.
package shelf

import "context"

type Interface interface {
	Put(context.Context, *PutRequest) (*PutResponse, error)
	List(context.Context, *ListRequest) (*ListResponse, error)
	Dust(context.Context, *DustRequest) (*DustResponse, error)
}

type Service interface {
	Interface
	Count(context.Context, *CountRequest) (*CountResponse, error)
}

type Binding uint32

const (
	BINDING_PAPER Binding = 0
	CLOTH                 = 1
)

type Author struct{ Name string }

type Book struct {
	Author *Author
	Pages  int64
}

type PutRequest struct {
	BookID  string
	Book    *Book
	Binding Binding
	TagIDs  []string
}

type PutResponse struct{}

type ListRequest struct{ All bool }

type ListResponse struct {
	Books   map[uint32]*Book
	Lent    []*Book
	Binding Binding
	Notes   map[string]string
}

type DustRequest struct{}

type DustResponse struct{}

type CountRequest struct {
	Room  uint32
	Quick bool
}

type CountResponse struct{ Count uint64 }
