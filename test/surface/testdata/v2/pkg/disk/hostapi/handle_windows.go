package api

import "syscall"

func (DiskAPI) GetDiskNumber(disk syscall.Handle) (uint32, error)

func (DiskAPI) GetDiskPage83ID(disk syscall.Handle) (string, error)
