package wmi

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/native/backend"
)

// Format creates a file system on a volume with MSFT_Volume.Format. The client
// must be one of [StorageNamespace].
func (c *Client) Format(vol string, o win32.FormatOptions) error {
	return c.do(&c.formats, volumeClass+".Format", backend.FormatLimit, func(s *session) error {
		found, err := s.instances(volumeQuery(vol))
		if err != nil {
			return err
		}
		var rows []row
		for _, v := range found {
			r, err := s.read(volumeClass, v, "UniqueId")
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		if len(rows) == 0 {
			others, err := s.atMost(1, query{class: volumeClass})
			if err != nil {
				return err
			}
			return unknownVolume(vol, len(others) > 0)
		}
		if err := checkVolume(rows, vol); err != nil {
			return err
		}
		out, err := s.invoke(volumeClass, found[0], "Format", formatParameters(o), "ReturnValue")
		if err != nil {
			return err
		}
		return storageResult(out)
	})
}

// UpdateCache makes the storage provider look for disks and volumes. The client must be one
// of [StorageNamespace]. Its error never means that MSFT_Volume is missing.
// https://learn.microsoft.com/windows-hardware/drivers/storage/msft-storagesetting-updatehoststoragecache
func (c *Client) UpdateCache() error {
	const class = "MSFT_StorageSetting"
	return begunError(c.change(class+".UpdateHostStorageCache", callLimit, func(s *session) error {
		out, err := s.invoke(class, nil, "UpdateHostStorageCache", nil, "ReturnValue")
		if err != nil {
			return err
		}
		return storageResult(out)
	}))
}

// OfflineReasons returns why disks are offline, by their numbers. The client must be one of
// [StorageNamespace].
func (c *Client) OfflineReasons() (map[uint32]uint16, error) {
	var reasons map[uint32]uint16
	err := c.list("query "+diskClass, func(s *session) error {
		found, err := s.instances(offlineReasonsQuery())
		if err != nil {
			return err
		}
		var rows []row
		for _, o := range found {
			r, err := s.read(diskClass, o, diskNumber, diskOfflineReason)
			if err != nil {
				return err
			}
			rows = append(rows, r)
		}
		reasons, err = offlineReasonsOf(rows)
		return err
	})
	if err != nil {
		return nil, err // and not reasons, which a query that hangs may set later
	}
	return reasons, nil
}

// UseAdd maps a share with MSFT_SmbGlobalMapping.Create. The client must be one
// of [SMBNamespace].
func (c *Client) UseAdd(u win32.NewUse) error {
	return c.change(mappingClass+".Create", callLimit, func(s *session) error {
		out, err := s.invoke(mappingClass, nil, "Create", createParameters(u), "ReturnValue")
		if err != nil {
			return err
		}
		return mappingResult(out)
	})
}

// UseEnum lists the global mappings, with and without drive letters.
func (c *Client) UseEnum() (uses []win32.Use, err error) {
	err = c.list("list "+mappingClass, func(s *session) error {
		uses = nil // of an earlier connection
		return s.mappings(query{class: mappingClass}, func(o *object, r row) error {
			for property := range requirements {
				// A class of a Windows without the property has unknown requirements.
				if one, err := s.read(mappingClass, o, property); err == nil {
					r.values[property] = one.values[property]
				}
			}
			u, err := useOf(r)
			uses = append(uses, u)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return uses, nil
}

// UseDel removes the global mapping of a share without a drive letter, with
// MSFT_SmbGlobalMapping.Remove. It returns ERROR_NOT_CONNECTED if there is none.
func (c *Client) UseDel(remote string) error {
	return c.change(mappingClass+".Remove", callLimit, func(s *session) error {
		removed := false
		remove := func(o *object, r row) error {
			if is, err := isMappingOf(r, remote); err != nil || !is {
				return err
			}
			removed = true
			out, err := s.invoke(mappingClass, o, "Remove", []parameter{{"Force", true}}, "ReturnValue")
			if err != nil {
				return err
			}
			return mappingResult(out)
		}
		err := s.mappings(mappingQuery(remote), remove)
		if !removed { // Windows may spell the share in another way, or not take the condition
			err = s.mappings(query{class: mappingClass}, remove)
		}
		if err == nil && !removed {
			err = win32.ERROR_NOT_CONNECTED
		}
		return err
	})
}

// mappings calls visit for each global mapping that q finds.
func (s *session) mappings(q query, visit func(*object, row) error) error {
	found, err := s.instances(q)
	if err != nil {
		return err
	}
	for _, o := range found {
		r, err := s.read(mappingClass, o, "RemotePath", "LocalPath", "Status")
		if err != nil {
			return err
		}
		if err := visit(o, r); err != nil {
			return err
		}
	}
	return nil
}
