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
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    mounted(&mounts).into_iter().for_each(|(inode, path)| add(inode, path));
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

/// What `ip netns` and containers keep is mounted, whether a process is in it or not. Fields 4 and 5 of a line are what of the file
/// system is mounted, and where (proc_pid_mountinfo(5)). The last one first: it hides what was mounted at its place before.
fn mounted(mounts: &str) -> Vec<(u64, PathBuf)> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let places = mounts.lines().rev().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        Some((inode_in(fields.next()?), Path::new(fields.next()?)))
    });
    let mut seen: Vec<&Path> = Vec::new();
    for (inode, at) in places {
        if let Some(inode) = inode.filter(|_| !seen.contains(&at)) {
            found.push((inode, at.to_owned()));
        }
        seen.push(at);
    }
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

    #[test]
    fn what_is_mounted_over_another_hides_it() {
        let line = |root: &str, at: &str| format!("700 29 0:4 {root} {at} rw shared:378 - nsfs nsfs rw\n");
        let check = |lines: &[(&str, &str)], want: &[(u64, &str)]| {
            let text: String = lines.iter().map(|(root, at)| line(root, at)).collect();
            let want: Vec<(u64, PathBuf)> = want.iter().map(|(inode, at)| (*inode, PathBuf::from(at))).collect();
            assert_eq!(mounted(&text), want, "{text}");
        };
        let (a, b) = (("net:[4026532501]", "/run/netns/a"), ("net:[4026532502]", "/run/netns/b"));
        check(&[("/", "/"), a, b], &[(4026532502, b.1), (4026532501, a.1)]);
        // Another one, or no namespace at all, at the same place later.
        check(&[a, (b.0, a.1)], &[(4026532502, a.1)]);
        check(&[a, b, ("/", a.1)], &[(4026532502, b.1)]);
        // A namespace at two places has both.
        check(&[a, (a.0, "/run/b")], &[(4026532501, "/run/b"), (4026532501, a.1)]);
        check(&[("net:[x]", "/run/netns/a"), ("", "")], &[]);
        assert_eq!(mounted("short\n1 2 3\n"), []);
    }
}
