//! Sets of CPUs as text, as `smp_affinity_list` has them.

use std::collections::BTreeSet;

use crate::text::number;

/// The most CPUs that a list may speak of: NR_CPUS of the largest kernels.
const MAX_CPUS: u32 = 8192;

/// CPUs as the kernel lists them: rising, neighbours as a range. `none` is no CPU.
pub fn format_cpus(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    if ranges.is_empty() {
        return "none".to_owned();
    }
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

/// CPUs of a list like `0-3,8`, rising; `none` or nothing is no CPU.
pub fn parse_cpus(text: &str) -> Option<Vec<u32>> {
    if text == "none" || text.is_empty() {
        return Some(Vec::new());
    }
    let mut cpus = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (number(first)?, number(last)?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}
