# SPDX-License-Identifier: BSD-3-Clause
# Before systemd starts: of all that it would bring up only devices, log and mounts are left, and
# a service that runs the part.
cd /lib/systemd/system
for unit in sysinit.target.wants/* multi-user.target.wants/* sockets.target.wants/* timers.target.wants/*; do
	case ${unit##*/} in
	systemd-udev* | systemd-journald.service | systemd-journald.socket) ;;
	*) rm -f "$unit" ;;
	esac
done
cat >vm.target <<'END'
[Unit]
Requires=basic.target
Wants=vm.service
END
# Runs whether the mounts have worked or not.
cat >vm.service <<END
[Unit]
DefaultDependencies=no
After=local-fs.target emergency.target systemd-udev-trigger.service
Conflicts=shutdown.target
Before=shutdown.target
[Service]
Type=oneshot
TimeoutStartSec=600
Environment=HOME=/root vm_boot=$vm_boot vm_part=$vm_part
ExecStart=/bin/sh -c "cd /tmp; sh /vm/$vm_part.sh >/dev/console 2>&1; echo @exit \$? >/dev/console; systemctl poweroff"
END
echo 0123456789abcdef0123456789abcdef >/etc/machine-id

# What an administrator writes.
option=
[ "$vm_boot" != 1 ] || option=noauto, # there is no filesystem yet
echo "/dev/dax0.0 /mnt pmemfs ${option}x-systemd.requires=pmemfs-fsck@dev-dax0.0.service 0 0" >/etc/fstab
mkdir -p /srv/pm /etc/udev/rules.d /etc/systemd/system
cat >/etc/systemd/system/srv-pm.mount <<'END'
[Mount]
What=/dev/dax0.0
Where=/srv/pm
Type=pmemfs
Options=noatime
END
echo 'SUBSYSTEM=="dax", KERNEL=="dax0.0", OWNER="pm", MODE="0600"' >/etc/udev/rules.d/70-dax-owner.rules
