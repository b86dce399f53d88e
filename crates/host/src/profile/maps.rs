//! /proc/PID/maps: which file an address of a process comes from, and where in that file.
//! Knows the file's lines (proc_pid_maps(5)), not what is in the files.

/// What a process has mapped to run, rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(Vec<Mapping>);

/// A stretch of addresses that comes from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    /// Where the file's part begins.
    offset: u64,
    path: String,
}

/// The most mappings that are kept of a process: those with code are few.
const MOST: usize = 1024;
/// The longest path that is kept: PATH_MAX.
const LONGEST_PATH: usize = 4096;

impl Maps {
    /// Reads the file's text. Lines that make no sense are left out.
    pub fn parse(text: &str) -> Maps {
        let mut maps: Vec<Mapping> = text.lines().filter_map(parse).take(MOST).collect();
        maps.sort_by_key(|mapping| mapping.start);
        Maps(maps)
    }

    /// The file that this address comes from, and where it is in that file.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.0.partition_point(|mapping| mapping.start <= address);
        let mapping = &self.0[after.checked_sub(1)?];
        (address < mapping.end)
            .then(|| (mapping.path.as_str(), (address - mapping.start).saturating_add(mapping.offset)))
    }
}

/// One line: `55d0c5a0b000-55d0c5a2e000 r-xp 00002000 fe:00 1055 /usr/bin/cat`; memory of no file has no path.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (range, access, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2).unwrap_or_default().trim_start();
    if access.as_bytes().get(2) != Some(&b'x') || path.len() > LONGEST_PATH {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let path = if path.is_empty() { "[anonymous]" } else { path };
    let mapping = Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, path: path.to_owned() };
    (mapping.start < mapping.end).then_some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c5a09000-55d0c5a0b000 r--p 00000000 fe:00 1055                       /usr/bin/a cat
55d0c5a0b000-55d0c5a2e000 r-xp 00002000 fe:00 1055                       /usr/bin/a cat
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7ffd1a5f6000-7ffd1a5f8000 r-xp 00000000 00:00 0                          [vdso]
nonsense
2000-1000 r-xp 0 0 0 /backwards
1000-2000 r-xp
";

    #[test]
    fn addresses_come_from_files() {
        let maps = Maps::parse(TEXT);
        assert_eq!(maps.find(0x55d0_c5a0_b010), Some(("/usr/bin/a cat", 0x2010)));
        assert_eq!(maps.find(0x55d0_c5a0_9000), None, "no code");
        assert_eq!(maps.find(0x7f00_0000_0fff), Some(("[anonymous]", 0xfff)));
        assert_eq!(maps.find(0x7f00_0000_1000), None);
        assert_eq!(maps.find(0x7ffd_1a5f_6001), Some(("[vdso]", 1)));
        assert_eq!([maps.find(0), maps.find(u64::MAX), maps.find(0x1800)], [None; 3]);
    }
}
