// Package shell is the mounter of a driver that runs PowerShell commands. A page
// shows it for comparison. It is compiled, but no test runs it.
package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// run runs a command. Values are passed in the environment: as part of the text, the
// name of a volume could become a command.
func run(ctx context.Context, command string, env ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command", command)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", command, err, out)
	}
	return out, nil
}

// Mounter does a node plugin's work on disks and directories.
type Mounter struct{}

// FormatAndMount mounts the volume of the disk with a serial number at target,
// and formats it if it is new.
func (Mounter) FormatAndMount(ctx context.Context, serial, target string) error {
	out, err := run(ctx, `Update-HostStorageCache; (Get-Disk | Where-Object SerialNumber -eq $Env:serial).Number`, "serial="+serial)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return fmt.Errorf("no disk has the serial number %q: %w", serial, err)
	}
	disk := "disk=" + strconv.Itoa(number)
	_, err = run(ctx, `if ((Get-Disk -Number $Env:disk).PartitionStyle -eq 'RAW') { Initialize-Disk -Number $Env:disk -PartitionStyle GPT }
		if (-not (Get-Partition -DiskNumber $Env:disk | Where-Object Type -eq Basic)) { New-Partition -DiskNumber $Env:disk -UseMaximumSize }
		Set-Disk -Number $Env:disk -IsOffline $false`, disk)
	if err != nil {
		return err
	}
	out, err = run(ctx, `Get-Partition -DiskNumber $Env:disk | Get-Volume | Select-Object UniqueId, FileSystem | ConvertTo-Json`, disk)
	if err != nil {
		return err
	}
	var volume struct{ UniqueId, FileSystem string }
	if err := json.Unmarshal(out, &volume); err != nil {
		return err
	}
	if volume.FileSystem == "" { // also if the volume could not be read
		if _, err := run(ctx, `Get-Volume -UniqueId $Env:id | Format-Volume -FileSystem ntfs -Confirm:$false`, "id="+volume.UniqueId); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	_, err = run(ctx, `Get-Volume -UniqueId $Env:id | Get-Partition | Add-PartitionAccessPath -AccessPath $Env:dir`, "id="+volume.UniqueId, "dir="+target)
	return err
}

// Expand grows the volume at target to the end of its disk.
func (Mounter) Expand(ctx context.Context, target string) error {
	_, err := run(ctx, `Update-HostStorageCache
		$part = Get-Partition | Where-Object AccessPaths -contains ($Env:dir + '\')
		$part | Resize-Partition -Size ($part | Get-PartitionSupportedSize).SizeMax`, "dir="+target)
	return err
}

// MountShare maps a share and makes a link to it at target.
func (Mounter) MountShare(ctx context.Context, share, target, user, password string) error {
	_, err := run(ctx, `$secret = ConvertTo-SecureString $Env:password -AsPlainText -Force
		$as = New-Object System.Management.Automation.PSCredential -ArgumentList $Env:user, $secret
		New-SmbGlobalMapping -RemotePath $Env:share -Credential $as -RequirePrivacy $true`,
		"share="+share, "user="+user, "password="+password)
	if err != nil {
		return err
	}
	return os.Symlink(share, target)
}
