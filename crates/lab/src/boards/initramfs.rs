//! The root of a board's system: an archive that the kernel unpacks into memory, with an init of ours.
//! Knows no packages: what goes in is given.
//!
//! The format is "newc" of cpio (Documentation/driver-api/early-userspace/buffer-format.rst): for each file a header
//! of 110 octets, all in hexadecimal digits, then the name and the contents, each padded to four octets.

use super::definition::LinuxSystem;
use crate::{HOST_IPV4, IPV4_PREFIX, IPV6_PREFIX, TARGET_IPV4, TARGET_IPV6};

/// An archive in the making.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    octets: Vec<u8>,
    files: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// The name after which nothing follows.
const TRAILER: &str = "TRAILER!!!";

impl Archive {
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// A file that may be executed.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, PROGRAM, contents);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.octets
    }

    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.files += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        let name_size = path.len() as u32 + 1;
        // inode, mode, uid, gid, links, mtime, size, device and device of the node (major, minor), name's size, check
        let fields = [self.files, mode, 0, 0, links, 0, contents.len() as u32, 0, 0, 0, 0, name_size, 0];
        self.octets.extend_from_slice(b"070701");
        for field in fields {
            self.octets.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.octets.extend_from_slice(path.as_bytes());
        self.octets.push(0);
        self.pad();
        self.octets.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }
}

/// What the board does when it has started: modules, the port, its addresses, the agent; a shell on the console.
pub(crate) fn init(board: &str, system: &LinuxSystem, modules: &[String]) -> String {
    let insert: String = modules.iter().map(|name| format!("insmod /modules/{name}\n")).collect();
    format!(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin\n\
         export PATH=/bin HOME=/root TERM=vt100\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev\n\
         mount -t tracefs trace /sys/kernel/tracing 2>/dev/null; mount -t debugfs debug /sys/kernel/debug 2>/dev/null\n\
         mkdir -p /run /tmp /root; hostname {name}\n\
         {before}\n\
         {insert}\
         n=0; while [ $n -lt 100 ] && [ ! -e /sys/class/net/eth0 ]; do sleep 0.1; n=$((n+1)); done\n\
         {before_link}\n\
         ip link set lo up\n\
         echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad; echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_ra\n\
         ip link set eth0 up\n\
         ip addr add {TARGET_IPV4}/{IPV4_PREFIX} dev eth0; ip -6 addr add {TARGET_IPV6}/{IPV6_PREFIX} dev eth0\n\
         n=0; while [ $n -lt 100 ] && [ \"$(cat /sys/class/net/eth0/carrier)\" != 1 ]; do sleep 0.1; n=$((n+1)); done\n\
         n=0; while [ $n -lt 100 ] && [ ! -e {device} ]; do sleep 0.1; n=$((n+1)); done\n\
         ping -c 1 -w 5 {HOST_IPV4} >/dev/null\n\
         while true; do\n\
           [ -t 0 ] <{device} && stty -F {device} raw -echo 115200\n\
           linerate-agent --line {device}\n\
           sleep 1\n\
         done >/run/agent.log 2>&1 &\n\
         while true; do setsid cttyhack sh -l </dev/{console} >/dev/{console} 2>&1; sleep 1; done\n",
        name = board,
        before = system.before_modules,
        before_link = system.before_link,
        device = system.agent_device,
        console = system.console,
    )
}

#[cfg(test)]
mod tests {
    use super::super::definition::Software;
    use super::*;

    #[test]
    fn an_archive_as_the_kernel_reads_it() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.file("bin/hi", b"hello");
        let octets = archive.finish();
        assert_eq!(octets.len() % 4, 0);
        let folder = "070701".to_owned() + "00000001000041ED0000000000000000000000020000000000000000" + &"0".repeat(32);
        let (header, rest) = octets.split_at(110);
        assert_eq!(std::str::from_utf8(header).unwrap(), folder + "00000004" + "00000000");
        let (name, rest) = rest.split_at(6);
        assert_eq!(name, b"bin\0\0\0");
        assert_eq!(&rest[54..62], b"00000005", "the file's size");
        assert_eq!(&rest[110..128], b"bin/hi\0\0\0\0hello\0\0\0");
    }

    #[test]
    fn every_board_has_an_init_of_whole_lines() {
        for board in crate::boards::BOARDS {
            let Software::Linux(system) = board.software else { continue };
            let script = init(board.name, &system, &["00-a.ko".to_owned()]);
            assert!(script.contains("\ninsmod /modules/00-a.ko\nn=0"), "{script}");
            assert!(script.contains(&format!("--line {}\n", system.agent_device)), "{script}");
        }
    }
}
