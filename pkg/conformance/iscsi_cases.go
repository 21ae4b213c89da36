package conformance

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

const (
	targetAddress = "192.0.2.20"
	targetIQN     = "iqn.2025-01.com.example:contract"

	chapSecret   = "right-secret-16b"
	wrongSecret  = "wrong-secret-16b"
	mutualSecret = "mutual-secret-16"
)

func portalAt(address string) *iscsi.TargetPortal {
	return &iscsi.TargetPortal{TargetAddress: address, TargetPort: 3260}
}

func (e *env) addPortal(p *iscsi.TargetPortal) error {
	return do(e, e.n.ISCSI.AddTargetPortal, &iscsi.AddTargetPortalRequest{TargetPortal: p})
}

func (e *env) removePortal(p *iscsi.TargetPortal) error {
	return do(e, e.n.ISCSI.RemoveTargetPortal, &iscsi.RemoveTargetPortalRequest{TargetPortal: p})
}

func (e *env) portals() ([]iscsi.TargetPortal, error) {
	return get(e, e.n.ISCSI.ListTargetPortals, &iscsi.ListTargetPortalsRequest{}, func(r *iscsi.ListTargetPortalsResponse) (list []iscsi.TargetPortal) {
		for _, p := range r.TargetPortals {
			list = append(list, *p)
		}
		return list
	})
}

func (e *env) discover(p *iscsi.TargetPortal) ([]string, error) {
	return get(e, e.n.ISCSI.DiscoverTargetPortal, &iscsi.DiscoverTargetPortalRequest{TargetPortal: p}, func(r *iscsi.DiscoverTargetPortalResponse) []string { return r.IQNs })
}

// login connects to the target that the cases use.
func (e *env) login(p *iscsi.TargetPortal, auth iscsi.AuthenticationType, user, secret string) error {
	return do(e, e.n.ISCSI.ConnectTarget, &iscsi.ConnectTargetRequest{TargetPortal: p, IQN: targetIQN, AuthType: auth, ChapUsername: user, ChapSecret: secret})
}

func (e *env) logout(p *iscsi.TargetPortal) error {
	return do(e, e.n.ISCSI.DisconnectTarget, &iscsi.DisconnectTargetRequest{TargetPortal: p, IQN: targetIQN})
}

func (e *env) setMutual(secret string) error {
	return do(e, e.n.ISCSI.SetMutualChapSecret, &iscsi.SetMutualChapSecretRequest{MutualChapSecret: secret})
}

func (e *env) targetDisks(p *iscsi.TargetPortal) ([]string, error) {
	return get(e, e.n.ISCSI.GetTargetDisks, &iscsi.GetTargetDisksRequest{TargetPortal: p, IQN: targetIQN}, func(r *iscsi.GetTargetDisksResponse) []string { return r.DiskIDs })
}

// wantDisks waits until the target provides n disks, which arrive one after the
// other, and returns their numbers.
func (e *env) wantDisks(n int) (numbers []uint32) {
	e.Helper()
	var disks []string
	e.until("the target has "+strconv.Itoa(n)+" disks", func() bool {
		var err error
		disks, err = e.targetDisks(portalAt(targetAddress))
		e.ok(err)
		return len(disks) == n
	})
	for _, d := range disks {
		number, err := strconv.ParseUint(d, 10, 32)
		e.ok(err)
		numbers = append(numbers, uint32(number))
	}
	return numbers
}

// luns are LUNs of those sizes.
func luns(sizes ...nodespec.Size) (all []nodespec.LUN) {
	for _, size := range sizes {
		all = append(all, nodespec.LUN{Disk: Disk{Size: size}})
	}
	return all
}

// target makes the target that the cases use, starts MSiSCSI and adds the
// target's portal.
func (e *env) target(t ISCSITarget) *iscsi.TargetPortal {
	e.Helper()
	if e.n.SetISCSITarget == nil {
		e.lacks("make iSCSI targets")
	}
	t.IQN, t.Portals = targetIQN, []nodespec.ISCSIPortal{{Address: targetAddress}}
	e.need("make an iSCSI target", e.n.SetISCSITarget(t))
	e.ok(e.start(initiator))
	p := portalAt(targetAddress)
	e.ok(e.addPortal(p))
	return p
}

// hides checks that an error's message and hint contain none of secrets.
func (e *env) hides(err error, secrets ...string) {
	e.Helper()
	for _, s := range secrets {
		if err != nil && strings.Contains(err.Error()+hosterr.HintOf(err), s) {
			e.Errorf("an error contains the secret %q: %v (hint %q)", s, err, hosterr.HintOf(err))
		}
	}
}

func iscsiCases() []testCase {
	withCHAP := ISCSITarget{LUNs: luns(gib), CHAP: &nodespec.CHAP{User: "csi", Secret: chapSecret, MutualSecret: mutualSecret}}
	return []testCase{
		{name: "every method fails while MSiSCSI is stopped", run: func(e *env) {
			e.ok(e.stop(initiator, true))
			p := portalAt(targetAddress)
			for _, c := range []result{
				{"AddTargetPortal", e.addPortal(p)}, {"ListTargetPortals", errOf(e.portals())}, {"DiscoverTargetPortal", errOf(e.discover(p))}, {"RemoveTargetPortal", e.removePortal(p)},
				{"ConnectTarget", e.login(p, iscsi.NONE, "", "")}, {"GetTargetDisks", errOf(e.targetDisks(p))}, {"DisconnectTarget", e.logout(p)}, {"SetMutualChapSecret", e.setMutual(mutualSecret)},
			} {
				e.want(c.method, c.err, hosterr.ErrFailedPrecondition, initiator)
			}
		}},
		{name: "portal is added, listed, queried and removed", run: func(e *env) {
			p := e.target(ISCSITarget{LUNs: luns(gib)})
			e.ok(e.addPortal(p))
			e.ok(e.addPortal(&iscsi.TargetPortal{TargetAddress: targetAddress})) // port 0 is 3260
			list, err := e.portals()
			if err != nil || !slices.Equal(list, []iscsi.TargetPortal{*p}) {
				e.Errorf("portals %v, %v, want only %v", list, err, *p)
			}
			iqns, err := e.discover(p)
			if err != nil || !slices.Equal(iqns, []string{targetIQN}) {
				e.Errorf("discovered %q, %v", iqns, err)
			}
			e.ok(e.removePortal(p))
			if list, err := e.portals(); err != nil || len(list) != 0 {
				e.Errorf("portals %v, %v, want none", list, err)
			}
			e.want("RemoveTargetPortal again", e.removePortal(p), hosterr.ErrNotFound, targetAddress)
			e.want("DiscoverTargetPortal", errOf(e.discover(p)), hosterr.ErrNotFound, targetAddress)
		}},
		{name: "portal without a listener is unavailable", run: func(e *env) {
			e.target(ISCSITarget{LUNs: luns(gib)})
			e.want("AddTargetPortal", e.addPortal(portalAt("192.0.2.99")), hosterr.ErrUnavailable, "192.0.2.99")
		}},
		{name: "malformed portals are refused", run: func(e *env) {
			for _, c := range []struct {
				portal *iscsi.TargetPortal
				text   string
			}{
				{nil, "target portal"}, {&iscsi.TargetPortal{}, "address"},
				{&iscsi.TargetPortal{TargetAddress: targetAddress, TargetPort: 65536}, "65536"},
				{&iscsi.TargetPortal{TargetAddress: targetAddress, TargetPort: 68796}, "68796"}, // 3260 in 16 bits
				{&iscsi.TargetPortal{TargetAddress: "300.0.0.1"}, "300.0.0.1"},
				{&iscsi.TargetPortal{TargetAddress: "192.0.2.20' OR '1'='1"}, "OR"},
				{&iscsi.TargetPortal{TargetAddress: targetAddress + ":3260"}, targetAddress + ":3260"},
			} {
				for _, m := range []result{
					{"AddTargetPortal", e.addPortal(c.portal)}, {"DiscoverTargetPortal", errOf(e.discover(c.portal))}, {"RemoveTargetPortal", e.removePortal(c.portal)},
					{"ConnectTarget", e.login(c.portal, iscsi.NONE, "", "")}, {"GetTargetDisks", errOf(e.targetDisks(c.portal))}, {"DisconnectTarget", e.logout(c.portal)},
				} {
					e.want(m.method, m.err, hosterr.ErrInvalid, c.text)
				}
			}
		}},
		{name: "malformed and unknown target names are refused", run: func(e *env) {
			p := e.target(ISCSITarget{LUNs: luns(gib)})
			connect := func(iqn string) error {
				out, err := e.n.ISCSI.ConnectTarget(e.ctx, &iscsi.ConnectTargetRequest{TargetPortal: p, IQN: iqn})
				return checkResponse(e, out, err)
			}
			for _, iqn := range []string{"", "disk1", "iqn.2025-01.com.example:' OR 1=1", "iqn.2025-01.com.example:" + strings.Repeat("a", 300)} {
				e.want("ConnectTarget", connect(iqn), hosterr.ErrInvalid)
			}
			e.want("ConnectTarget", connect(targetIQN+"-not"), hosterr.ErrNotFound)
		}},
		{name: "target with three LUNs is connected repeatedly without authentication", run: func(e *env) {
			p := e.target(ISCSITarget{LUNs: luns(gib, 2*gib, 3*gib)})
			if disks, err := e.targetDisks(p); err != nil || len(disks) != 0 {
				e.Errorf("disks before the login: %q, %v", disks, err)
			}
			e.ok(e.login(p, iscsi.NONE, "", ""))
			numbers := e.wantDisks(3)
			var sizes []int64
			for _, number := range numbers {
				size, err := e.size(number)
				e.ok(err)
				sizes = append(sizes, size)
			}
			slices.Sort(sizes)
			if !slices.Equal(sizes, []int64{gib, 2 * gib, 3 * gib}) {
				e.Errorf("the disks %v have the sizes %v", numbers, sizes)
			}
			e.ok(e.login(p, iscsi.NONE, "", ""))
			if again := e.wantDisks(3); !slices.Equal(again, numbers) {
				e.Errorf("after a second login the disks are %v, want %v", again, numbers)
			}
			for range 2 {
				e.ok(e.logout(p))
				e.wantDisks(0)
			}
			for _, number := range numbers {
				e.want("GetDiskStats after the logout", errOf(e.size(number)), hosterr.ErrNotFound)
			}
		}},
		{name: "CHAP refuses a wrong secret and accepts the right one", run: func(e *env) {
			p := e.target(withCHAP)
			e.want("login without CHAP", e.login(p, iscsi.NONE, "", ""), hosterr.ErrPermissionDenied)
			for what, err := range map[string]error{
				"login with a wrong secret": e.login(p, iscsi.ONE_WAY_CHAP, "csi", wrongSecret), "login of another user": e.login(p, iscsi.ONE_WAY_CHAP, "root", chapSecret),
			} {
				e.want(what, err, hosterr.ErrPermissionDenied)
				e.hides(err, chapSecret, wrongSecret)
			}
			e.wantDisks(0)
			e.ok(e.login(p, iscsi.ONE_WAY_CHAP, "csi", chapSecret))
			e.wantDisks(1)
		}},
		{name: "mutual CHAP needs the secret of the node", run: func(e *env) {
			p := e.target(withCHAP)
			e.want("mutual CHAP without the node's secret", e.login(p, iscsi.MUTUAL_CHAP, "csi", chapSecret), hosterr.ErrPermissionDenied)
			e.ok(e.setMutual(wrongSecret))
			e.want("mutual CHAP with a wrong secret", e.login(p, iscsi.MUTUAL_CHAP, "csi", chapSecret), hosterr.ErrPermissionDenied)
			e.ok(e.setMutual(mutualSecret))
			e.ok(e.login(p, iscsi.MUTUAL_CHAP, "csi", chapSecret))
			e.wantDisks(1)
		}},
		{name: "malformed secrets and unknown authentication types are refused", run: func(e *env) {
			p := portalAt(targetAddress)
			for _, secret := range []string{"", "short-one-1", "much-too-long-one"} {
				for what, err := range map[string]error{
					"ConnectTarget": e.login(p, iscsi.ONE_WAY_CHAP, "csi", secret), "SetMutualChapSecret": e.setMutual(secret),
				} {
					e.want(what, err, hosterr.ErrInvalid, "12", "16")
					if secret != "" {
						e.hides(err, secret)
					}
				}
			}
			e.want("ConnectTarget", e.login(p, 3, "csi", chapSecret), hosterr.ErrInvalid)
		}},
		{name: "disk of a target keeps its volume across logins", run: func(e *env) {
			p := e.target(withCHAP)
			e.ok(e.login(p, iscsi.ONE_WAY_CHAP, "csi", chapSecret))
			number := e.wantDisks(1)[0]
			e.ok(e.setOnline(number, true))
			e.ok(e.partition(number))
			id := e.volume(number)
			e.ok(e.format(id))
			dir := e.dir("m")
			e.ok(e.mount(id, dir))
			e.ok(e.mkdir(dir + `\kept`))
			e.ok(e.flush(id))
			e.ok(e.unmount(id, dir))

			e.ok(e.logout(p))
			e.wantDisks(0)
			e.ok(e.login(p, iscsi.ONE_WAY_CHAP, "csi", chapSecret))
			number = e.wantDisks(1)[0]
			e.ok(e.setOnline(number, true))
			e.ok(e.partition(number))
			id = e.volume(number)
			e.wantFormatted(id, true)
			e.ok(e.mount(id, dir))
			e.wantExists(true, dir+`\kept`)
		}},
	}
}
