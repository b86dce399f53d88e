//! How long this process's control groups kept it from running: CPU quotas used up.
//! Knows both versions of control groups, and no trials.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The control groups of this process that may have a CPU quota, its own and those above it, their files kept open.
pub(crate) struct Throttling {
    /// The text of /proc/self/cgroup that they were found by.
    membership: String,
    files: Vec<File>,
    looked: Instant,
    buffer: Vec<u8>,
}

/// A move of this process to another group is noticed after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Groups nest a few levels deep; more are not looked at.
const MOST_FILES: usize = 16;
const MEMBERSHIP: &str = "/proc/self/cgroup";

impl Throttling {
    /// Those of now; `None` where the kernel has no control groups.
    pub(crate) fn open() -> Option<Throttling> {
        let membership = fs::read_to_string(MEMBERSHIP).ok()?;
        let files = open_files(&membership);
        Some(Throttling { membership, files, looked: Instant::now(), buffer: vec![0; 4096] })
    }

    /// Time in which a quota of theirs was used up, µs, all CPUs together; it falls when the process has moved.
    pub(crate) fn read_us(&mut self) -> u64 {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.looked = Instant::now();
            if let Some(membership) = fs::read_to_string(MEMBERSHIP).ok().filter(|now| *now != self.membership) {
                (self.files, self.membership) = (open_files(&membership), membership);
            }
        }
        let buffer = &mut self.buffer;
        let read = |file: &File| file.read_at(buffer, 0).ok().and_then(|len| throttled_us(&buffer[..len]));
        self.files.iter().filter_map(read).sum()
    }
}

fn open_files(membership: &str) -> Vec<File> {
    // 'ip netns exec' takes /sys away with all that is mounted below it, and those that have started it still have it.
    let mounts = |of: &String| fs::read_to_string(format!("{of}/mountinfo")).unwrap_or_default();
    let all = views().into_iter().map(|of| groups(membership, &mounts(&of)));
    let mut files = Vec::new();
    for (mount, group) in all.into_iter().find(|groups| !groups.is_empty()).unwrap_or_default() {
        for folder in group.ancestors().take_while(|folder| folder.starts_with(&mount)).take(MOST_FILES) {
            files.extend(File::open(folder.join("cpu.stat")).ok());
        }
    }
    files
}

/// The folders of this process's groups that account for CPU time: the mount, and the group in it (cgroups(7), proc(5)).
fn groups(membership: &str, mounts: &str) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        // Number, parent, device, root, mount point, options …, a dash, type, source, options of the file system.
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let mut place = place.split(' ').skip(3);
        let (Some(root), Some(mount)) = (place.next(), place.next()) else { continue };
        let mut kind = kind.split(' ');
        let has_cpu = |list: &str| list.split(',').any(|one| one == "cpu");
        let is_second = match (kind.next(), kind.nth(1)) {
            (Some("cgroup2"), _) => true,
            (Some("cgroup"), Some(options)) if has_cpu(options) => false,
            _ => continue,
        };
        let path = membership.lines().find_map(|line| {
            // Number, controllers, path; of the second version 0 and none.
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = if is_second { number == "0" && controllers.is_empty() } else { has_cpu(controllers) };
            is_it.then_some(path)
        });
        let Some(path) = path else { continue };
        // In a container the mount may show a part of the tree, and the path be told from the whole tree's root.
        let mount = visible(mount);
        let within = Path::new(path).strip_prefix(root).or(Path::new(path).strip_prefix("/")).unwrap_or(Path::new(""));
        let group = mount.join(within);
        let group = if group.is_dir() { group } else { mount.clone() };
        if !found.iter().any(|(one, _)| *one == mount) {
            found.push((mount, group));
        }
    }
    found
}

/// Processes that may see the mounts: this one, the one that started it, and the first.
fn views() -> [String; 3] {
    ["self".to_owned(), std::os::unix::process::parent_id().to_string(), "1".to_owned()]
        .map(|one| format!("/proc/{one}"))
}

/// Where the mount is seen; by its own name, if nowhere.
fn visible(mount: &str) -> PathBuf {
    let seen = |of: String| Path::new(&format!("{of}/root")).join(mount.trim_start_matches('/'));
    let is_group = |path: &PathBuf| path.join("cgroup.procs").exists();
    let own = PathBuf::from(mount);
    if is_group(&own) { own } else { views().into_iter().map(seen).find(is_group).unwrap_or(own) }
}

/// `throttled_usec` of the second version (Documentation/admin-guide/cgroup-v2.rst), or `throttled_time`, nanoseconds, of
/// the first (Documentation/scheduler/sched-bwc.rst).
fn throttled_us(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", value) => value.parse().ok(),
        ("throttled_time", value) => value.parse::<u64>().ok().map(|ns| ns / 1000),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let second = b"usage_usec 5\nuser_usec 4\nsystem_usec 1\nnr_periods 3\nnr_throttled 2\nthrottled_usec 150000\n";
        assert_eq!(throttled_us(second), Some(150_000));
        assert_eq!(throttled_us(b"nr_periods 3\nnr_throttled 2\nthrottled_time 150000000\n"), Some(150_000));
        assert_eq!(throttled_us(b"usage_usec 5\nuser_usec 4\n"), None);
    }

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n\
                      31 25 0:27 / /tmp/v1 rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 25 0:28 / /tmp/other rw - cgroup cgroup rw,cpuset\n\
                      garbage\n";
        let found = groups("4:cpu,cpuacct:/\n3:cpuset:/x\n0::/no/such/group\n", mounts);
        let pair = |mount: &str| (PathBuf::from(mount), PathBuf::from(mount));
        assert_eq!(
            found,
            [pair("/sys/fs/cgroup"), pair("/tmp/v1")],
            "a group that is not there is above the mount's root"
        );
        assert_eq!(groups("", mounts), []);
        assert_eq!(groups("0::/", ""), []);
    }

    #[test]
    fn time_does_not_fall_while_nobody_moves() {
        if let Some(mut throttling) = Throttling::open() {
            let before = throttling.read_us();
            assert!((0..50).all(|_| throttling.read_us() >= before));
        }
    }
}
