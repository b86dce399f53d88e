//! The network namespaces of this machine, as far as this process can find them.
//! Knows no interfaces; [`crate::sys::namespace`] enters one.

use std::fs;
use std::path::{Path, PathBuf};

/// A path to each that is mounted, that a process is in, or that a process has open; with the number of its inode. No
/// list of all exists (namespaces(7)): one that only a socket keeps is not found.
pub(crate) fn all() -> Vec<(u64, PathBuf)> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let mut add = |inode: u64, path: PathBuf| {
        if found.iter().all(|(known, _)| *known != inode) {
            found.push((inode, path));
        }
    };
    // What `ip netns` and containers keep is mounted, whether a process is in it or not (proc_pid_mountinfo(5)): fields
    // 4 and 5 are what of the file system is mounted, and where.
    // The last one first: what is mounted over another hides it.
    for line in fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default().lines().rev() {
        let mut fields = line.split(' ').skip(3);
        let (Some(root), Some(at)) = (fields.next(), fields.next()) else { continue };
        if let Some(inode) = inode_in(root) {
            add(inode, PathBuf::from(at));
        }
    }
    let mut add_link = |path: PathBuf| {
        // By its link: to look at what is behind one may wait for a file system that does not answer.
        let link = fs::read_link(&path).ok();
        if let Some(inode) = link.as_deref().and_then(Path::to_str).and_then(inode_in) {
            add(inode, path);
        }
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|process| process.path());
    let processes: Vec<PathBuf> = processes.filter(|process| process.join("ns").exists()).collect();
    processes.iter().map(|process| process.join("ns/net")).for_each(&mut add_link);
    let open = processes.iter().filter_map(|process| fs::read_dir(process.join("fd")).ok());
    open.flatten().flatten().map(|file| file.path()).for_each(&mut add_link);
    found
}

/// `net:[4026531840]`, as the kernel writes a namespace.
fn inode_in(text: &str) -> Option<u64> {
    text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn that_of_this_thread_is_found() {
        let inode = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let path = all().into_iter().find(|(one, _)| *one == inode).expect("this process is in it");
        assert_eq!(fs::metadata(path.1).unwrap().ino(), inode);
        assert_eq!(["net:[x]", "pid:[1]", "net:[1", ""].map(inode_in), [None; 4]);
    }
}
