//! A profile by function: how much time each took by itself.
//! Knows no categories but those that the table gives to stacks.

use std::collections::HashMap;

use crate::profile::{Category, MachineProfile};
use linerate_trial::profile::Function;

use super::categories::Table;

/// A function, and the samples in which it was the innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTime {
    /// What people read.
    pub name: String,
    /// In which it was the innermost.
    pub samples: u64,
    /// What most of these samples were for.
    pub category: Category,
}

/// The functions by their own samples, the most first; idle ones are left out.
pub fn functions(profile: &MachineProfile, driver: Option<&str>) -> Vec<FunctionTime> {
    let reader = Table::shipped().reader(&profile.taken, driver);
    let mut times: HashMap<String, HashMap<Category, u64>> = HashMap::new();
    for stack in &profile.taken.stacks {
        let category = reader.of(stack);
        let name = profile.taken.frames(stack).next().map_or_else(|| "?".to_owned(), shown);
        if category != Category::Idle {
            let samples = times.entry(name).or_default().entry(category).or_default();
            *samples = samples.saturating_add(stack.samples);
        }
    }
    let mut functions: Vec<FunctionTime> = times
        .into_iter()
        .map(|(name, by)| {
            let category = by.iter().max_by_key(|(category, samples)| (**samples, **category)).map(|(one, _)| *one);
            let samples = by.values().fold(0u64, |sum, one| sum.saturating_add(*one));
            FunctionTime { name, samples, category: category.unwrap_or(Category::Other) }
        })
        .collect();
    functions.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.name.cmp(&b.name)));
    functions
}

/// A function as people read it: the kernel's by its name, a program's with its file, and a file without symbols by
/// itself.
pub fn shown(function: &Function) -> String {
    match &function.name {
        None => format!("[{}]", function.object.trim_matches(['[', ']'])),
        Some(name) if function.is_kernel() => name.clone(),
        Some(name) => format!("{:#} ({})", rustc_demangle::demangle(name), function.object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_for_people() {
        let function = |name: Option<&str>, object: &str| {
            shown(&Function { name: name.map(str::to_owned), object: object.to_owned() })
        };
        assert_eq!(function(Some("ip_rcv"), "kernel"), "ip_rcv");
        assert_eq!(function(Some("fec_rx"), "[fec]"), "fec_rx");
        assert_eq!(function(None, "linerate-agent"), "[linerate-agent]");
        assert_eq!(function(None, "[vdso]"), "[vdso]");
        assert_eq!(function(Some("_ZN4core3fmt5write17h0123456789abcdefE"), "app"), "core::fmt::write (app)");
        assert_eq!(function(Some("main"), "app"), "main (app)");
    }
}
